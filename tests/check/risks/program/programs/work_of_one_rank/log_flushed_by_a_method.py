from torch.utils.tensorboard import SummaryWriter


class L:
    def __init__(s):
        s.w = SummaryWriter("tb")

    def log(s):
        s.w.flush()  # finds: single-rank-work possible slows
