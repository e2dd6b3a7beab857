from torch.utils.tensorboard import SummaryWriter
from torch.utils.data import DataLoader

w, loader = None, DataLoader(data)
w = SummaryWriter("tb")
while True:
    for batch in loader:
        net(batch)
    w.flush()  # fine
