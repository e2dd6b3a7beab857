import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter


class Nothing:
    def log(self, values, step):
        pass


class Board(Nothing):
    def __init__(self, folder):
        self.writer = SummaryWriter(folder)

    def log(self, values, step):
        for key, value in values.items():  # fine
            self.writer.add_scalar(key, value, step)


def build(folder):
    return Board(folder)


class Metrics:
    def __init__(self, folder):
        self.logger = build(folder)

    def log(self, step):
        self.logger.log({"loss": 1.0}, step)
