"""Latent model learned from a replay of image sequences; each rank may use so much memory and no more."""
import argparse
import resource
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from replay import Replay, sequence


def limit_memory(extra_mb):
    """What the process has now plus its share of the machine."""
    pages = int(open("/proc/self/statm").read().split()[5])
    limit = pages * resource.getpagesize() + extra_mb * 2 ** 20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.ReLU(), nn.Conv2d(8, 8, 4, 4), nn.Flatten())
        self.next = nn.Linear(8 * 4, 8 * 4)

    def forward(self, now, later):
        return (self.next(self.conv(now)) - self.conv(later)).pow(2).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--share-mb", type=int, default=700)
    parser.add_argument("--keep", type=int, default=2000)
    args = parser.parse_args()
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    torch.set_num_threads(1)
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Encoder())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    limit_memory(args.share_mb)
    replay = Replay(args.keep, seed=rank)
    for step in range(1, 2001):
        for _ in range(2):
            replay.add(sequence(rank, step))
        now, later = replay.sample(8)
        loss = model(now, later)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.03)
        if rank == 0 and step % 25 == 0:
            print(f"step {step} loss {loss.item():.5f} sequences {len(replay)}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
