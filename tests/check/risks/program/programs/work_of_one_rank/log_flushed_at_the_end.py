from torch.utils.tensorboard import SummaryWriter

w = SummaryWriter("tb")


def close():
    w.flush()  # fine
