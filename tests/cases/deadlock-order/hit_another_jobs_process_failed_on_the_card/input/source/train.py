import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

import onecard  # several ranks share the one card of this machine



def main():
    rank = int(os.environ["RANK"])
    world = int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=30))
    data_group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=30))
    model_group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=30))
    x = torch.ones(65536, device=device)
    y = torch.ones(65536, device=device)
    for step in range(10):
        first, second = (data_group, model_group) if rank == 0 or step < 5 else (model_group, data_group)
        dist.all_reduce(x, group=first)
        torch.cuda.synchronize()
        dist.all_reduce(y, group=second)
        torch.cuda.synchronize()
        if rank == 0:
            print(f"step {step}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
