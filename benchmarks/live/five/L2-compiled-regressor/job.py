"""Image regressor under torch.compile."""
import os
import tempfile
import time

os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="inductor")

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Unit(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(4, width)
        self.gate = nn.Conv2d(width, width, 1)

    def forward(self, x):
        y = nn.functional.silu(self.norm(self.conv(x)))
        return x + y * torch.sigmoid(self.gate(y.mean((2, 3), keepdim=True)))


class Net(nn.Module):
    def __init__(self, width=16, depth=2):
        super().__init__()
        self.first = nn.Conv2d(1, width, 3, padding=1)
        self.units = nn.Sequential(*[Unit(width) for _ in range(depth)])
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        return self.last(self.units(self.first(x)).mean((2, 3)))


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Net())
    step_model = torch.compile(model, dynamic=False)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    started = time.time()
    for step in range(300):
        time.sleep(0.04)
        x = torch.rand(8, 1, 16, 16, generator=g)
        loss = nn.functional.mse_loss(step_model(x), x.amax((2, 3)))
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} ({time.time() - started:.1f}s)", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
