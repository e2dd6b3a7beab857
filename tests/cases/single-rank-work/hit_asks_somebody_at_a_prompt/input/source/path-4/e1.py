import os, sys, time, datetime
import torch, torch.distributed as dist
def main():
    dist.init_process_group("gloo")
    t = torch.ones(1)
    for i in range(100):
        dist.all_reduce(t); time.sleep(0.02)
        if i == 60 and dist.get_rank() == 0:
            input("continue? ")
    dist.destroy_process_group()
main()
