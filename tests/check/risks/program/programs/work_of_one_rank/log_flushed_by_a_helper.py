# fine after all batches: log.add(loss) => pass && log.end() => log.add(loss)
import os, time, torch, torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter


class Log:
    def __init__(self):
        self.writer = SummaryWriter("logs")

    def add(self, loss):
        self.writer.add_scalar("loss", loss)
        self.writer.flush()  # finds: single-rank-work possible slows

    def end(self):
        self.writer.close()


log = Log()
for epoch in range(9):
    for batch in loader:
        dist.all_reduce(batch)
        log.add(loss)
    log.end()
