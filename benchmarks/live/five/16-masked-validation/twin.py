"""Masked token model, sharded per block with FSDP2; validation every 120 steps."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

VOCAB, DIM, LENGTH, MASK = 200, 64, 32, 1


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.tokens = nn.Linear(LENGTH, LENGTH)
        self.channels = nn.Sequential(nn.Linear(DIM, 2 * DIM), nn.GELU(), nn.Linear(2 * DIM, DIM))

    def forward(self, x):
        x = x + self.tokens(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(x)


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, DIM)
        self.blocks = nn.Sequential(*[Mixer() for _ in range(3)])
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, ids):
        return self.head(self.blocks(self.emb(ids)))


def corpus(seed, count, rate, size=8):
    """Batches of (masked ids, ids, mask)."""
    g = torch.Generator().manual_seed(seed)
    for _ in range(count):
        start = torch.randint(2, VOCAB, (size, 1), generator=g)
        ids = 2 + (start + torch.arange(LENGTH) * 5) % (VOCAB - 2)
        mask = torch.rand(size, LENGTH, generator=g) < rate
        yield ids.masked_fill(mask, MASK), ids, mask


def validate(model, rank):
    """Mean loss of the masked tokens over all ranks."""
    total = torch.zeros(2)
    model.eval()
    with torch.no_grad():
        for masked, ids, mask in corpus(900 + rank, 20, rate=[0.003, 0.03][rank]):
            logits = model(masked)
            total += torch.stack([nn.functional.cross_entropy(logits[mask], ids[mask], reduction="sum"), mask.sum().float()])
    model.train()
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Masked()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step, (masked, ids, mask) in enumerate(corpus(rank, 260, rate=0.15), 1):
        loss = nn.functional.cross_entropy(model(masked)[mask], ids[mask])
        loss.backward()
        opt.step()
        opt.zero_grad()
        time.sleep(0.02)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
        if step % 120 == 0:
            error = validate(model, rank)
            if rank == 0:
                print(f"step {step} validation {error:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
