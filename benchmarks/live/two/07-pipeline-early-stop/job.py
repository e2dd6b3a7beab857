"""Three-stage pipeline (1F1B) that stops when the loss does not fall any more."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

MICROBATCHES = 4
BATCH = 16


class Plateau:
    def __init__(self, patience=25, min_delta=1e-3):
        self.patience, self.min_delta = patience, min_delta
        self.best, self.bad = float("inf"), 0

    def update(self, loss):
        if loss < self.best - self.min_delta:
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


def stage_module(rank, world):
    if rank == 0:
        return nn.Sequential(nn.Linear(10, 32), nn.Tanh())
    if rank == world - 1:
        return nn.Linear(32, 1)
    return nn.Sequential(nn.Linear(32, 32), nn.Tanh())


def batch(step):
    g = torch.Generator().manual_seed(step % 20)
    x = torch.randn(BATCH, 10, generator=g)
    return x, torch.randn(BATCH, 1, generator=g)


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    module = stage_module(rank, world)
    stage = PipelineStage(module, rank, world, torch.device("cpu"))
    schedule = Schedule1F1B(stage, MICROBATCHES, loss_fn=nn.functional.mse_loss)
    opt = torch.optim.SGD(module.parameters(), lr=1e-4)
    plateau = Plateau()

    steps = 0
    for step in range(3000):
        x, y = batch(step)
        opt.zero_grad()
        if rank == 0:
            schedule.step(x)
        elif rank == world - 1:
            losses = []
            schedule.step(target=y, losses=losses)
            loss = torch.stack(losses).mean().item()
            if step % 10 == 0:
                print(f"step {step} loss {loss:.4f}", flush=True)
            if plateau.update(loss):
                print(f"stopping at step {step}, best loss {plateau.best:.4f}", flush=True)
                break
        else:
            schedule.step()
        opt.step()
        steps += 1
        time.sleep(0.05)

    norms = [None] * world
    dist.all_gather_object(norms, {"steps": steps, "norm": sum(p.norm().item() for p in module.parameters())})
    if rank == 0:
        print(norms, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
