from torch.utils.tensorboard import SummaryWriter
from torch.utils.data import DataLoader

w = SummaryWriter("tb")
for epoch in range(9):
    for step, batch in enumerate(DataLoader(data)):
        net(batch)
        if rank == 0:
            w.flush()  # finds: single-rank-work possible slows
