"""Residual network with stochastic depth, trained with DDP; the drop rate grows with the epochs."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

EPOCHS = 8
STEPS = 60


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.drop = 0.0
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x):
        branch = self.down(torch.relu(self.up(self.norm(x)))) / (1 - self.drop)
        if self.training and self.drop > 0 and torch.rand(()).item() < self.drop:
            branch = branch * 0.0
        return x + branch


class Net(nn.Module):
    def __init__(self, dim=32, depth=4):
        super().__init__()
        self.first = nn.Linear(16, dim)
        self.blocks = nn.ModuleList(Block(dim) for _ in range(depth))
        self.head = nn.Linear(dim, 1)

    def set_drop(self, rate):
        for i, block in enumerate(self.blocks):
            block.drop = rate * (i + 1) / len(self.blocks)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x).squeeze(1)


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = Net()
    model = DDP(net)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    torch.manual_seed(100 + rank)
    g = torch.Generator().manual_seed(rank)
    for epoch in range(EPOCHS):
        net.set_drop(0.02 * max(0, epoch - 2))
        for step in range(STEPS):
            x = torch.randn(32, 16, generator=g)
            y = torch.sin(x[:, 0]) + x[:, 1] * x[:, 2]
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.04)
        if rank == 0:
            print(f"epoch {epoch} drop {net.blocks[-1].drop:.3f} loss {loss.item():.4f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
