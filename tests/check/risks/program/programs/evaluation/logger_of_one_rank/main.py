# fine logger of all:     if dist.get_rank() != 0:\n        return Nothing()\n =>
from torch.distributed.fsdp import fully_shard
from loggers import Metrics


class Trainer:
    def __init__(self):
        self.metrics = Metrics("runs")

    def train(self):
        for step in range(10):
            loss = model(step)
            loss.backward()
            self.metrics.log(step)


Trainer().train()
