import os, sys, time, datetime
import torch, torch.distributed as dist
def setup(x):
    if dist.get_rank() == 0:
        dist.send(x, dst=1)
    else:
        dist.recv(x, src=0)
        dist.recv(x, src=0)
def main():
    dist.init_process_group("gloo")
    t = torch.ones(1); dist.all_reduce(t)
    setup(t)
    dist.barrier()
    dist.destroy_process_group()
main()
