"""Density model on shards from the object store; the ranks' shards have been written by different teams."""
import atexit
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from shards import Shards

ROWS_PER_SHARD = {0: 128, 1: 32}


def start_store(rank):
    if rank == 0:
        if os.path.exists("store.port"):
            os.remove("store.port")
        server = subprocess.Popen([sys.executable, "store.py", "store.port"])
        atexit.register(server.terminate)
        while not os.path.exists("store.port"):
            time.sleep(0.2)
    dist.barrier()
    return int(open("store.port").read())


class Flow(nn.Module):
    def __init__(self, dim=20):
        super().__init__()
        self.a = nn.ModuleList(nn.Sequential(nn.Linear(dim // 2, 64), nn.Tanh(), nn.Linear(64, dim)) for _ in range(4))

    def forward(self, x):
        logdet = 0.0
        for net in self.a:
            left, right = x.chunk(2, 1)
            shift, scale = net(left).chunk(2, 1)
            scale = torch.tanh(scale)
            x = torch.cat([right * scale.exp() + shift, left], 1)
            logdet = logdet + scale.sum(1)
        return (x.square().sum(1) / 2 - logdet).mean()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    port = start_store(rank)
    torch.manual_seed(0)
    model = DDP(Flow())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    source = Shards(port, f"rank{rank}", ROWS_PER_SHARD[rank])
    for step, x in enumerate(source.batches(32, first=rank), 1):
        loss = model(x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.05)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} nll {loss.item():.3f}", flush=True)
        if step == 3000:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
