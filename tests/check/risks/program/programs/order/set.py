# fine dict: set => dict
# also frozenset counted: set() => frozenset(other.keys()) && name in self.names => at, name in enumerate(self.names)
# also set as a list: self.names: => list(self.names):
# fine set of numbers: set() => set(range(4))
# fine set sorted: self.names: => sorted(self.names):
import os, time, torch, torch.distributed as dist


class State:
    def __init__(self):
        self.names = set()

    def add(self, name):
        self.names.add(name)

    def gather(self):
        for name in self.names:  # finds: collective-mismatch possible stops
            self.one(name)

    def one(self, name):
        dist.all_reduce(getattr(self, name))


State().gather()
