# fine padded: kept = batches => kept = batches; batches = batches[: len(batches) // self.ranks * self.ranks]
# fine filled: kept = batches => kept = batches; batches += batches[: -len(batches) % self.ranks]
import os, time, torch, torch.distributed as dist
from torch.utils.data import DataLoader, Sampler


class Buckets(Sampler[int]):
    def __init__(self, rows):
        self.rows, self.rank, self.ranks = rows, dist.get_rank(), dist.get_world_size()

    def __iter__(self):
        batches = [self.rows[at : at + 4] for at in range(0, len(self.rows), 4)]
        kept = batches
        return iter(batches[self.rank :: self.ranks])  # finds: uneven-data possible slows


for batch in DataLoader(rows, batch_sampler=Buckets(rows), timeout=9):
    dist.all_reduce(batch)
