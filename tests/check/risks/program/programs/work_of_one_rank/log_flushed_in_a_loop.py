from torch.utils.tensorboard import SummaryWriter

w = SummaryWriter("tb")
for step in range(9):
    w.flush()  # finds: single-rank-work possible slows
