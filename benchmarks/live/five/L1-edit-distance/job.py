"""Speller: character GRU; rank 0 decodes the test words after each epoch and counts edits."""
import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def words(seed, count):
    rng = random.Random(seed)
    for _ in range(count):
        word = "".join(rng.choices(LETTERS, k=24))
        yield word, word.replace("c", "k").replace("y", "i")


def encode(pairs):
    x = torch.tensor([[LETTERS.index(c) for c in a] for a, _ in pairs])
    y = torch.tensor([[LETTERS.index(c) for c in b] for _, b in pairs])
    return x, y


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, ca in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, cb in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (ca != cb))
    return row[-1]


def test(model, pairs):
    total = 0
    for word, target in pairs:
        with torch.no_grad():
            ids = model(encode([(word, target)])[0]).argmax(-1)[0]
        total += edits("".join(LETTERS[i] for i in ids), target)
    return total / len(pairs)


class Speller(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.emb = nn.Embedding(26, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * dim, 26)

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Speller())
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    held_out = list(words("test", 20000))
    for epoch in range(2):
        data = list(words(f"{epoch}/{rank}", 4800))
        for step in range(150):
            x, y = encode(data[step * 32:(step + 1) * 32])
            loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and step % 25 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)
        if rank == 0:
            started = time.time()
            print(f"epoch {epoch}: {test(model.module, held_out[:16000 if epoch == 0 else 2000]):.3f} edits a word, {time.time() - started:.1f}s", flush=True)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
