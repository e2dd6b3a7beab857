from torch.utils.tensorboard import SummaryWriter

w = SummaryWriter("tb")
w.flush()  # fine
