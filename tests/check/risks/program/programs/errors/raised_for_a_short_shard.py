import os, time, torch, torch.distributed as dist


class Rows:
    def __init__(self, rank):
        self.rank, self.at, self.shard = rank, 0, 0

    def take(self):
        rows = self.rows[self.at + self.rank :]
        if len(rows) != 8:
            raise ValueError
        self.shard = self.shard + 1
        if self.shard == 3:
            dist.barrier()  # fine


Rows(dist.get_rank()).take()
