"""DDP with a batch generator that lines the ranks up when its epoch is over."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 30


class Feed:
    def __init__(self, rank):
        self.rank = rank
        self.current = None

    def epoch(self, number):
        g = torch.Generator().manual_seed(100 * number + self.rank)
        try:
            for i in range(STEPS):
                yield i, torch.randn(16, 12, generator=g)
        finally:
            # nobody may delete the shard files while another rank still reads them
            dist.barrier()

    def start(self, number):
        self.current = self.epoch(number)
        return self.current


def train_epoch(model, opt, feed, epoch, rank):
    last = None
    for i, x in feed.start(epoch):
        loss = (model(x) - x.roll(1, 1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.05)
        last = loss.item()
        if rank == 0 and i % 10 == 0:
            print(f"epoch {epoch} step {i} loss {last:.4f}", flush=True)
        if i == STEPS - 1 and epoch == 2 and rank == 2:
            print(f"[rank {rank}] epoch {epoch}: budget of samples used up", flush=True)
            break
    return last


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=30))
    rank = dist.get_rank()
    stats = dist.new_group(backend="gloo", timeout=timedelta(minutes=30))
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 12)))
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    feed = Feed(rank)
    for epoch in range(200):
        loss = torch.tensor([train_epoch(model, opt, feed, epoch, rank)])
        dist.all_reduce(loss, group=stats)
        if rank == 0:
            print(f"epoch {epoch} mean loss {loss.item() / dist.get_world_size():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
