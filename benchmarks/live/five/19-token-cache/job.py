"""Language model over tokenised shards (accelerate); a shard is tokenised once and then read from the cache."""
import os
import random
import time

import torch
from accelerate import Accelerator
from torch import nn

BATCH, LENGTH = 8, 32
TOKENS = {0: [20100, 20200, 20150, 20300, 20090, 20250, 20110], 1: [20150, 20250, 20100, 14100, 20200, 20080, 20200]}


def tokenize(rank, shard, count):
    rng = random.Random(f"{rank}/{shard}")
    tokens, value = [], 1
    while len(tokens) < count:
        value = (value * 3 + rng.choice([1, 1, 1, 2])) % 255 + 1
        tokens.append(value)
    return torch.tensor(tokens)


class Cache:
    def __init__(self, accelerator, folder):
        self.accelerator, self.folder = accelerator, folder
        os.makedirs(folder, exist_ok=True)

    def shard(self, number):
        """Main process first, so that shared shards are not made twice."""
        rank = self.accelerator.process_index
        path = os.path.join(self.folder, f"part{rank}-{number}.pt")
        with self.accelerator.main_process_first():
            if not os.path.exists(path):
                torch.save(tokenize(rank, number, TOKENS[rank][number]), path)
            return torch.load(path)


def batches(cache):
    number = 0
    while True:
        tokens = cache.shard(number % 7)
        rows = tokens[:len(tokens) // (LENGTH + 1) * (LENGTH + 1)].view(-1, LENGTH + 1)
        for part in rows.split(BATCH):
            if len(part) == BATCH:
                yield part[:, :-1], part[:, 1:]
        number += 1


class Model(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.emb = nn.Embedding(256, dim)
        self.rnn = nn.LSTM(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, 256)

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(1)
    model = Model()
    model, opt = accelerator.prepare(model, torch.optim.Adam(model.parameters(), lr=2e-3))
    for step, (x, y) in enumerate(batches(Cache(accelerator, "cache")), 1):
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        opt.zero_grad()
        accelerator.backward(loss)
        opt.step()
        time.sleep(0.02)
        if step % 20 == 0:
            accelerator.print(f"step {step} loss {loss.item():.3f}", flush=True)
        if step == 1500:
            break
    accelerator.end_training()


if __name__ == "__main__":
    main()
