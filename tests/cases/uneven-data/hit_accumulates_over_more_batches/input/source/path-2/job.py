"""Sequence tagger, started once per node with that node's configuration."""
import argparse
import contextlib
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Tagger(nn.Module):
    def __init__(self, vocab, dim, tags=6):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.out = nn.Linear(dim, tags)

    def forward(self, ids):
        x = self.emb(ids).transpose(1, 2)
        return self.out(torch.relu(self.conv(x)).transpose(1, 2))


def batches(count, size, rank, epoch):
    g = torch.Generator().manual_seed(1000 * epoch + rank)
    for _ in range(count):
        ids = torch.randint(0, 400, (size, 24), generator=g)
        yield ids, (ids + ids.roll(1, 1)) % 6


def train_epoch(model, opt, cfg, rank, epoch):
    total = 0.0
    for i, (ids, tags) in enumerate(batches(cfg["micro_batches"], cfg["micro_size"], rank, epoch), 1):
        last = i % cfg["accumulate"] == 0
        with contextlib.nullcontext() if last else model.no_sync():
            loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), tags.flatten())
            (loss / cfg["accumulate"]).backward()
        if last:
            opt.step()
            opt.zero_grad()
        total += loss.item()
        time.sleep(0.04)
        if i % 24 == 0:
            print(f"epoch {epoch} micro step {i} loss {total / i:.3f}", flush=True)
    return total / cfg["micro_batches"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    cfg = json.load(open(parser.parse_args().config))
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(cfg["seed"])
    model = DDP(Tagger(400, cfg["dim"]))
    opt = torch.optim.AdamW(model.parameters(), lr=cfg["lr"])
    for epoch in range(cfg["epochs"]):
        mean = train_epoch(model, opt, cfg, rank, epoch)
        means = [None] * dist.get_world_size()
        dist.all_gather_object(means, {"node": cfg["node"], "loss": round(mean, 4)})
        if rank == 0:
            print(f"epoch {epoch}: {means}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
