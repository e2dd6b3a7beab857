"""Everything that talks to the other ranks."""
import queue
import threading
import time

import torch
import torch.distributed as dist


class Communicator:
    """Gloo calls from two threads, each with a group of its own."""

    def __init__(self, stats_group):
        self.stats_group = stats_group
        self.world = dist.get_world_size()

    def average(self, tensor):
        dist.all_reduce(tensor)
        tensor /= self.world

    def pool(self, values):
        dist.all_reduce(values, group=self.stats_group)
        return values


class StatsThread(threading.Thread):
    """Pools after the same steps on all ranks, so that all of them pool equally often."""

    def __init__(self, comm, every, first):
        super().__init__(daemon=True)
        self.comm, self.steps, self.first = comm, int(every * 40), first
        self.total = torch.zeros(2, dtype=torch.float64)
        self.count = 0
        self.parts = queue.Queue()

    def add(self, loss, rows):
        self.total += torch.tensor([loss * rows, rows], dtype=torch.float64)
        self.count += 1
        if self.count % self.steps == 0:
            self.parts.put(self.total.clone())
            self.total.zero_()

    def run(self):
        while (values := self.parts.get()) is not None:
            loss, rows = self.comm.pool(values).tolist()
            if self.first:
                print(f"[{time.strftime('%H:%M:%S')}] {rows:.0f} rows, mean loss {loss / rows:.4f}", flush=True)

    def stop(self):
        self.parts.put(None)
        self.join()
