"""torch.compile with DDP; one rank reads sentences of changing length."""
import time
from datetime import timedelta

import torch
import torch._dynamo
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch._dynamo.config.recompile_limit = 2000
torch._dynamo.config.accumulated_recompile_limit = 4000


class Tagger(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.emb = nn.Embedding(200, d)
        self.mix = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
                                 for _ in range(10))
        self.head = nn.Linear(d, 9)

    def forward(self, ids):
        h = self.emb(ids)
        for m in self.mix:
            h = h + m(h) + h.cumsum(1) / ids.shape[1]
        return self.head(h)


def length_of(step, rank):
    if rank == 1 and step >= 40:
        return 24 + (step * 7) % 601
    return 24


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=30))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(torch.compile(Tagger(), dynamic=False, backend="aot_eager"))
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, 1001):
        t = time.perf_counter()
        ids = torch.randint(0, 200, (8, length_of(step, rank)))
        loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), (ids % 9).flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.05)
        if rank == 0 and (step % 10 == 0 or step > 40):
            print(f"step {step} loss {loss.item():.4f} {time.perf_counter() - t:.2f}s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
