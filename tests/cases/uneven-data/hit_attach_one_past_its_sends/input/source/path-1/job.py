"""Three-stage pipeline: the first stage reads the documents, the last one their labels."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from corpus import Documents, Labels

BATCH, MICRO, DIM = 16, 4, 32


def stage_module(rank, world):
    if rank == 0:
        return nn.Sequential(nn.Embedding(200, DIM), nn.Flatten(), nn.Linear(8 * DIM, DIM), nn.ReLU())
    if rank == world - 1:
        return nn.Linear(DIM, 5)
    return nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU())


def reader(rank, world):
    if rank == 0:
        return Documents()
    if rank == world - 1:
        return Labels()
    return None


def train_epoch(schedule, opt, rows, rank, world, epoch):
    steps = torch.tensor(len(rows) // BATCH if rows is not None else 0)
    if rank == 1:
        dist.recv(steps, src=world - 1)
    elif rank == world - 1:
        dist.send(steps, dst=1)
    done = 0
    for i in range(int(steps)):
        opt.zero_grad()
        if rank == 0:
            schedule.step(rows[i * BATCH:(i + 1) * BATCH])
        elif rank == world - 1:
            losses = []
            schedule.step(target=rows[i * BATCH:(i + 1) * BATCH], losses=losses)
            if i % 20 == 0:
                print(f"epoch {epoch} step {i} loss {torch.stack(losses).mean():.4f}", flush=True)
        else:
            schedule.step()
        opt.step()
        done += 1
        time.sleep(0.04)
    total = torch.tensor([done])
    dist.all_reduce(total)
    if rank == 0:
        print(f"epoch {epoch}: {total.item() // world} steps", flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    module = stage_module(rank, world)
    schedule = ScheduleGPipe(PipelineStage(module, rank, world, torch.device("cpu")), MICRO,
                             loss_fn=nn.functional.cross_entropy)
    opt = torch.optim.SGD(module.parameters(), lr=0.05)
    data = reader(rank, world)
    for epoch in range(3):
        train_epoch(schedule, opt, data.epoch(epoch) if data else None, rank, world, epoch)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
