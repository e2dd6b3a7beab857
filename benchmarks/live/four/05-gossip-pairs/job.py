"""Gossip SGD: after every few local steps the ranks average their weights in random pairs."""
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

MIX_EVERY = 5


class Crops:
    """Random crops of a series; a crop that is all zeros is drawn again."""

    def __init__(self, rank):
        g = torch.Generator().manual_seed(rank)
        self.series = torch.randn(5000, generator=g)
        if rank == 2:
            self.series[2000:2044] = 0
        self.order = torch.Generator().manual_seed(50 + rank)

    def crop(self):
        start = int(torch.randint(0, 4900, (1,), generator=self.order))
        piece = self.series[start:start + 40]
        while not piece.any():
            start = random.randrange(4900)
            piece = self.series[start:start + 40]
        return piece

    def batch(self):
        rows = torch.stack([self.crop() for _ in range(4)])
        return rows[:, :32], rows[:, 32:]


def partner(rank, world):
    """Everybody draws the same permutation, neighbours in it are a pair."""
    order = list(range(world))
    random.shuffle(order)
    return order[order.index(rank) ^ 1]


@torch.no_grad()
def mix(model, rank, world):
    other = partner(rank, world)
    mine = nn.utils.parameters_to_vector(model.parameters())
    theirs = torch.empty_like(mine)
    if rank < other:
        dist.send(mine, dst=other)
        dist.recv(theirs, src=other)
    else:
        dist.recv(theirs, src=other)
        dist.send(mine, dst=other)
    nn.utils.vector_to_parameters((mine + theirs) / 2, model.parameters())


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank, world = dist.get_rank(), dist.get_world_size()
    random.seed(2024)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    data = Crops(rank)
    for step in range(1, 401):
        x, y = data.batch()
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.1)
        if step % MIX_EVERY == 0:
            mix(model, rank, world)
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
