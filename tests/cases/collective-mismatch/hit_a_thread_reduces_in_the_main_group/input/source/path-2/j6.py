"""A thread on rank 0 shares its throughput with everybody every few seconds."""
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

COUNT = [0]


def report(stop):
    while not stop.wait(4.0):
        rate = torch.tensor([float(COUNT[0])])
        dist.all_reduce(rate)
        print("seen so far", rate.item(), flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Linear(16, 16))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    stop = threading.Event()
    if rank == 0:
        threading.Thread(target=report, args=(stop,), name="throughput", daemon=True).start()
    for step in range(600):
        g = torch.Generator().manual_seed(1000 * rank + step)
        x = torch.randn(8, 16, generator=g)
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        COUNT[0] += 8
        time.sleep(0.02)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    stop.set()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
