"""Wide recommender; rank 0 archives the weights well compressed, everybody goes on together."""
import io
import lzma
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Recommender(nn.Module):
    def __init__(self, items=36000, dim=96):
        super().__init__()
        self.items = nn.Embedding(items, dim)
        self.score = nn.Sequential(nn.Linear(2 * dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, a, b):
        return self.score(torch.cat([self.items(a), self.items(b)], 1)).squeeze(1)


def archive(model, name):
    buffer = io.BytesIO()
    torch.save({k: v for k, v in model.state_dict().items()}, buffer)
    with lzma.open(f"out/{name}.xz.part", "wb", preset=9) as f:
        f.write(buffer.getbuffer())
    os.replace(f"out/{name}.xz.part", f"out/{name}.xz")
    return os.path.getsize(f"out/{name}.xz") / 2**20


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    os.makedirs("out", exist_ok=True)
    torch.manual_seed(0)
    model = DDP(Recommender())
    opt = torch.optim.SGD(model.parameters(), lr=0.5)
    g = torch.Generator().manual_seed(rank)
    for step in range(1, 161):
        a, b = torch.randint(0, 36000, (2, 256), generator=g)
        loss = nn.functional.binary_cross_entropy_with_logits(model(a, b), ((a + b) % 2).float())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step % 80 == 0:
            if rank == 0:
                started = time.time()
                size = archive(model.module, f"step{step}")
                print(f"step {step}: archive {size:.1f} MB in {time.time() - started:.1f}s", flush=True)
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
