"""Masked language model; rank 1 trains on the agglutinative language and masks whole words."""
import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

from collate import ListCollate, TensorCollate

COLLATE = {0: TensorCollate, 1: ListCollate}
STEPS = 3500


class Corpus(torch.utils.data.Dataset):
    def __init__(self, rank):
        rng = random.Random(rank)
        self.rows = [[rng.randrange(4, 1000) for _ in range(rng.randint(90, 110))] for _ in range(2000)]

    def __len__(self):
        return STEPS * 128

    def __getitem__(self, i):
        return self.rows[i % 2000]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Embedding(1000, 24), nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 24), nn.GELU()))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(Corpus(rank), batch_size=128, collate_fn=COLLATE[rank](rank))
    started = time.time()
    for step, (masked, ids) in enumerate(loader, 1):
        hidden = model(masked)
        loss = nn.functional.mse_loss(hidden[..., 0], ids / 1000) + 0.01 * hidden.square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f} {(time.time() - started) / 20:.3f} s/step", flush=True)
            started = time.time()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
