"""Small encoder with FSDP2 and layer drop (stochastic depth), switched on after the warm-up."""
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

DIM, DEPTH, WARMUP = 48, 6, 120


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.mix = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, x):
        return x + self.mix(self.norm(x))


class Encoder(nn.Module):
    def __init__(self, layerdrop):
        super().__init__()
        self.layerdrop = layerdrop
        self.warm = False
        self.embed = nn.Embedding(100, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.head = nn.Linear(DIM, 100)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            if self.training and self.warm and random.random() < self.layerdrop:
                continue
            x = block(x)
        return self.head(x)


def build():
    torch.manual_seed(0)
    model = Encoder(layerdrop=0.2)
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def batch(rank, step):
    g = torch.Generator().manual_seed(7919 * step + rank)
    tokens = torch.randint(0, 100, (8, 24), generator=g)
    return tokens, (tokens + 3) % 100


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    random.seed(1234 + rank)
    model = build()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(500):
        if step == WARMUP:
            model.warm = True
            if rank == 0:
                print(f"warm-up done, layer drop {model.layerdrop}", flush=True)
        tokens, target = batch(rank, step)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), target.flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()
        time.sleep(0.02)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
