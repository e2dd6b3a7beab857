from torch.utils.tensorboard import SummaryWriter

w = unhang.BackgroundWriter(SummaryWriter("tb"))
for step in range(9):
    w.flush()  # fine
