# fine raised for a short shard: return => raise ValueError
import os, time, torch, torch.distributed as dist


class Rows:
    def __init__(self, rank):
        self.rank, self.at, self.shard = rank, 0, 0

    def take(self):
        rows = self.rows[self.at + self.rank :]
        if len(rows) != 8:
            return
        self.shard = self.shard + 1
        if self.shard == 3:
            dist.barrier()  # finds: rank-conditional-collective possible stops; rank-conditional-collective possible stops


Rows(dist.get_rank()).take()
