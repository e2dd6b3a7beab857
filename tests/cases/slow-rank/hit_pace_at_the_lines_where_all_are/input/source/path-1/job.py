"""Review rating with packed sequences; rank 1 reads the long-form magazine reviews."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.utils.rnn import pack_padded_sequence

MEAN_LENGTH = {0: 45, 1: 110}
STEPS = 2800


class Rater(nn.Module):
    def __init__(self, vocab=2000, dim=96):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, 5)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.emb(ids), lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.rnn(packed)[1][-1])


def batch(g, mean, size=16):
    lengths = (mean + 0.1 * mean * torch.randn(size, generator=g)).round().long().clamp(5)
    ids = torch.randint(0, 2000, (size, int(lengths.max())), generator=g)
    return ids, lengths, ids[:, 0] % 5


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Rater())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    started = time.time()
    for step in range(1, STEPS + 1):
        ids, lengths, stars = batch(g, MEAN_LENGTH[rank])
        loss = nn.functional.cross_entropy(model(ids, lengths), stars)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.3f} {(time.time() - started) / 20:.3f} s/step", flush=True)
            started = time.time()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
