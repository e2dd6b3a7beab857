"""Dialogue model; lengths vary a lot from batch to batch, on all ranks alike."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 5500


class Dialogue(nn.Module):
    def __init__(self, vocab=800, dim=80):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])


def turns(g, size=8):
    length = int(torch.exp(3.6 + 0.8 * torch.randn(1, generator=g)).clamp(6, 400))
    ids = torch.randint(0, 800, (size, 1), generator=g) + torch.arange(length + 1) * 7
    return ids % 800


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Dialogue())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(500 + rank)
    started = time.time()
    for step in range(1, STEPS + 1):
        ids = turns(g)
        loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step} length {ids.shape[1] - 1} loss {loss.item():.3f} {(time.time() - started) / 20:.3f} s/step", flush=True)
            started = time.time()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
