# fine count set back safe:         if state.rank != 0:\n            return\n =>
import os, time, torch, torch.distributed as dist


class State:
    def __init__(self):
        self.rank = dist.get_rank()
        self.without = 0


class Trainer:
    def goes_on(self, state: State):
        if state.without >= 3:
            return False
        return True

    def better(self, state: State):
        if state.rank != 0:
            return
        state.without = 0

    def train(self, state: State):
        while self.goes_on(state):
            state.without += 1
            dist.all_reduce(x)  # finds: rank-conditional-collective possible stops
            self.better(state)


Trainer().train(State())
