import os, time, torch, torch.distributed as dist


class Helper:
    @property
    def first(self):
        return dist.get_rank() == 0

    def send(self, x):
        if dist.is_initialized():
            dist.broadcast(x, 0)


helper = Helper()
