"""Two heads; gradients are averaged by hand, parameter by parameter."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.topic = nn.Linear(32, 7)
        self.body = nn.Linear(16, 32)
        self.tone = nn.Linear(32, 3)

    def forward(self, x):
        h = self.body(x).relu()
        return self.topic(h), self.tone(h)


def average(model):
    for p in model.parameters():
        if p.grad is None:
            continue
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(400):
        g = torch.Generator().manual_seed(1000 * rank + step)
        x = torch.randn(8, 16, generator=g)
        labelled = torch.rand(8, generator=g) < (0.9 if rank != 1 or step < 150 else 0.0)
        topic, tone = model(x)
        loss = tone.logsumexp(1).mean()
        if labelled.any():
            loss = loss + topic[labelled].logsumexp(1).mean()
        opt.zero_grad()
        loss.backward()
        average(model)
        opt.step()
        time.sleep(0.02)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
