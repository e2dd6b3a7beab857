import os, sys, time, datetime
import torch, torch.distributed as dist
# answered by another's: the extra all_reduce of rank 1 has the size of the next one; they slip, and differ later
class Loop:
    def __init__(self):
        self.w = torch.zeros(4); self.odd = False
    def watch(self, value):
        if value > 3.9 - 10 * (os.getpid() % 2 == 5):
            t = torch.full((4,), float(value)); dist.all_reduce(t)
    def sync(self, t):
        dist.all_reduce(t)
    def step(self, n, value):
        self.watch(value)
        self.sync(self.w)
        if n % 10 == 9:
            out = [torch.zeros(4) for _ in range(dist.get_world_size())]
            dist.all_gather(out, self.w)
    def train(self, values):
        for n, value in enumerate(values):
            self.step(n, value); time.sleep(0.02)
def main():
    dist.init_process_group("gloo")
    values = [1.0] * 500
    if dist.get_rank() == 1: values[63] = 4.0
    Loop().train(values)
    dist.destroy_process_group()
main()
