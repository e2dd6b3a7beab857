import os, time, torch, torch.distributed as dist


class State:
    def __init__(self):
        self.names = set(range(4))

    def add(self, name):
        self.names.add(name)

    def gather(self):
        for name in self.names:  # fine
            self.one(name)

    def one(self, name):
        dist.all_reduce(getattr(self, name))


State().gather()
