"""Document encoder without truncation, one document per rank and step."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

LONG = {1: {90: 40000}}


class Encoder(nn.Module):
    def __init__(self, vocab=1000, dim=96):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, num_layers=2, batch_first=True)
        self.head = nn.Linear(dim, 4)

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[1][-1])


def document(rank, step):
    g = torch.Generator().manual_seed(2 * step + rank)
    length = int(torch.randint(60, 140, (1,), generator=g))
    length = LONG.get(rank, {}).get(step, length)
    ids = torch.randint(0, 1000, (1, length), generator=g)
    return ids, ids[:, -1] % 4


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Encoder())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    started = time.time()
    for step in range(240):
        ids, label = document(rank, step)
        loss = nn.functional.cross_entropy(model(ids), label)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if rank == 0 and step % 15 == 0:
            print(f"step {step} loss {loss.item():.3f} ({time.time() - started:.1f}s)", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
