from torch.utils.tensorboard import SummaryWriter
from engine import train

w = SummaryWriter("tb")
for epoch in range(9):
    train(epoch)
    w.flush()  # fine
