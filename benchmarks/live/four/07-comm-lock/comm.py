"""Everything that talks to the other ranks."""
import threading
import time

import torch
import torch.distributed as dist


class Communicator:
    """Gloo calls from two threads: one at a time."""

    def __init__(self, stats_group):
        self.stats_group = stats_group
        self.world = dist.get_world_size()
        self.lock = threading.Lock()

    def average(self, tensor):
        with self.lock:
            dist.all_reduce(tensor)
        tensor /= self.world

    def pool(self, values):
        with self.lock:
            dist.all_reduce(values, group=self.stats_group)
        return values


class StatsThread(threading.Thread):
    def __init__(self, comm, every, first):
        super().__init__(daemon=True)
        self.comm, self.every, self.first = comm, every, first
        self.total = torch.zeros(2, dtype=torch.float64)
        self.guard = threading.Lock()
        self.ended = threading.Event()

    def add(self, loss, rows):
        with self.guard:
            self.total += torch.tensor([loss * rows, rows], dtype=torch.float64)

    def run(self):
        while not self.ended.wait(self.every):
            with self.guard:
                values = self.total.clone()
                self.total.zero_()
            loss, rows = self.comm.pool(values).tolist()
            if self.first:
                print(f"[{time.strftime('%H:%M:%S')}] {rows:.0f} rows, mean loss {loss / rows:.4f}", flush=True)

    def stop(self):
        self.ended.set()
