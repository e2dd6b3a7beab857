import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter


class Nothing:
    def log(self, values, step):
        pass


class Board(Nothing):
    def __init__(self, folder):
        self.writer = SummaryWriter(folder)

    def log(self, values, step):
        for key, value in values.items():
            self.writer.add_scalar(key, value, step)  # finds: single-rank-work possible note "main.py:12"


def build(folder):
    if dist.get_rank() != 0:
        return Nothing()
    return Board(folder)


class Metrics:
    def __init__(self, folder):
        self.logger = build(folder)

    def log(self, step):
        self.logger.log({"loss": 1.0}, step)
