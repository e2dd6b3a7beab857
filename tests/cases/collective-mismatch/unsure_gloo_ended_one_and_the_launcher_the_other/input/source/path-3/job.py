"""Multi-task regression (three heads on one trunk); gradients are averaged by hand."""
import random
import time

import torch
import torch.distributed as dist
from torch import nn

TASKS = {"depth": 1, "normal": 3, "albedo": 3}


class MultiTask(nn.Module):
    def __init__(self, dim=40):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(dim, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.heads = nn.ModuleDict({name: nn.Linear(64, size) for name, size in TASKS.items()})

    def forward(self, x, task):
        z = self.trunk(x)
        return {name: head(z[task == i]) for i, (name, head) in enumerate(self.heads.items()) if (task == i).any()}


class Scenes:
    """Rows in the order of recording; the depth camera was not always on."""

    def __init__(self, rank):
        rng = random.Random(rank)
        self.g = torch.Generator().manual_seed(rank)
        self.weights = torch.randn(40, 3, generator=torch.Generator().manual_seed(99))
        self.tasks = rng.choices([0, 1, 2], weights=[4, 3, 3], k=40000)
        if rank == 1:
            self.tasks[7000:7900] = rng.choices([1, 2], k=900)

    def batch(self, step, size=32):
        task = torch.tensor(self.tasks[step * size:(step + 1) * size])
        x = torch.randn(size, 40, generator=self.g)
        return x, torch.tanh(x @ self.weights), task


def average_gradients(model, world):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= world


def task_loss(outputs, y, task):
    total = 0.0
    for i, name in enumerate(TASKS):
        if name in outputs:
            total = total + nn.functional.mse_loss(outputs[name], y[task == i][:, :TASKS[name]])
    return total


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = MultiTask()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    scenes = Scenes(rank)
    for step in range(1200):
        x, y, task = scenes.batch(step)
        loss = task_loss(model(x, task), y, task)
        opt.zero_grad()
        loss.backward()
        average_gradients(model, world)
        opt.step()
        time.sleep(0.05)
        if rank == 0 and step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
