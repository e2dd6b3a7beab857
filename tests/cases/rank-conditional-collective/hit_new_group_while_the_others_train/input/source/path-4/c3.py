import os, sys, time, datetime
import torch, torch.distributed as dist
# rank 0 makes one group more
def setup():
    groups = [dist.new_group([0, 1])]
    if dist.get_rank() == 0:
        groups.append(dist.new_group([0, 1]))
    return groups
def main():
    dist.init_process_group("gloo")
    t = torch.ones(1); dist.all_reduce(t)
    g = setup()
    for i in range(500):
        dist.all_reduce(t, group=g[0]); time.sleep(0.02)
    dist.destroy_process_group()
main()
