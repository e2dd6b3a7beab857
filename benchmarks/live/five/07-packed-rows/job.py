"""Next-token model on packed documents; every rank reads a source of its own."""
import itertools
import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from packing import Packer

LENGTH, VOCAB = 96, 300
SOURCES = {0: ("chat", 3.0, 0.45), 1: ("manuals", 3.1, 0.55)}


def documents(rank):
    name, mean, spread = SOURCES[rank]
    rng = random.Random(name)
    for i in itertools.count():
        count = max(4, int(rng.lognormvariate(mean, spread)))
        if name == "manuals" and i % 320 == 319:
            count += LENGTH
        if name == "chat":
            count = min(count, LENGTH)
        first = rng.randrange(1, VOCAB)
        yield [(first + 3 * j) % (VOCAB - 1) + 1 for j in range(count)]


class Model(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(2)
    model = DDP(Model())
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    packer = Packer(documents(rank), LENGTH)
    seen, started = 0, time.time()
    for step in range(1, 4001):
        ids = torch.tensor(packer.rows(8))
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0)
        opt.zero_grad()
        loss.backward()
        opt.step()
        seen += int((ids > 0).sum())
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.3f} {seen / (time.time() - started):.0f} tokens/s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
