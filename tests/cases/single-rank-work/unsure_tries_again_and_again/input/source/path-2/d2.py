import os, sys, time, datetime
import torch, torch.distributed as dist
def read_shard(path):
    for attempt in range(10000):
        try:
            with open(path) as f: return f.read()
        except FileNotFoundError:
            wait = min(2, 0.1 * attempt)
            time.sleep(wait)
def main():
    dist.init_process_group("gloo")
    t = torch.ones(1)
    for i in range(50):
        dist.all_reduce(t); time.sleep(0.02)
    if dist.get_rank() == 1:
        read_shard("/path-2/never-there")
    for i in range(50):
        dist.all_reduce(t)
    dist.destroy_process_group()
main()
