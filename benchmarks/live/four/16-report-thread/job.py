"""World model trained with DDP; one rank also keeps the report of recent episodes up to date in a thread."""
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from report import Report


def roll(rng, length=40):
    """One episode of a noisy swing: position and speed."""
    pos, speed, path = rng.uniform(-1, 1), 0.0, []
    for _ in range(length):
        speed += -0.3 * pos - 0.1 * speed + rng.gauss(0, 0.05)
        pos += 0.5 * speed
        path.append((pos, speed))
    return path


def make_batch(rng, rows=12):
    paths = [roll(rng) for _ in range(rows)]
    data = torch.tensor(paths)
    return paths, data[:, :-1].flatten(0, 1), data[:, 1:].flatten(0, 1)


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    torch.set_num_threads(1)
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    report = Report("report.html") if rank == world - 1 else None
    rng = random.Random(rank)
    started = time.time()
    for step in range(1, 3001):
        paths, x, y = make_batch(rng)
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if report:
            report.add(step, loss.item(), paths)
        time.sleep(0.04)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.5f} {(time.time() - started) / 20:.3f} s/step", flush=True)
            started = time.time()
    if report:
        report.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
