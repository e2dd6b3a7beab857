"""Train, then gather what every rank measured on its part of the validation set."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def setup():
    backend = os.environ.get("TRAIN_BACKEND", "gloo")
    dist.init_process_group(backend, timeout=timedelta(seconds=120))
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def measure(model, rows, device):
    model.eval()
    with torch.no_grad():
        errors = model(torch.randn(rows, 32, device=device)).pow(2).squeeze(1)
    return errors[torch.isfinite(errors)]


def main():
    device = setup()
    rank, world = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(torch.nn.Linear(32, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(8):
        loss = model(torch.randn(16, 32, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    rows = 5000
    mine = range(rank, rows - rows % world - 1, world)
    errors = measure(model.module, len(mine), device)
    everyone = [torch.empty_like(errors) for _ in range(world)]
    dist.all_gather(everyone, errors)
    print("median error", torch.cat(everyone).median().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
