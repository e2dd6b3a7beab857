import os, sys, time
import torch, torch.distributed as dist

def wait_for_index(path):
    while not os.path.exists(path):
        time.sleep(0.5)

def spin_for_index(path):
    while not os.path.exists(path):
        pass

def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    for step in range(100):
        if step == 20 and rank == 0:
            (wait_for_index if sys.argv[1] == "sleep" else spin_for_index)("cache/index.done")
        dist.all_reduce(torch.ones(4))
        time.sleep(0.02)
    dist.destroy_process_group()

main()
