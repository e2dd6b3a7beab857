"""Train, and gather what the ranks print over a group of their own."""

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


def reporting_group(quiet):
    if dist.get_rank() in quiet:
        return None
    return dist.new_group(backend="gloo")


def main():
    device = setup()
    world = dist.get_world_size()
    model = DistributedDataParallel(torch.nn.Linear(32, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    reports = reporting_group(quiet=[world - 1])
    for step in range(50):
        loss = model(torch.randn(16, 32, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if reports is not None:
            said = [None] * world
            dist.all_gather_object(said, f"step {step} loss {loss.item():.4f}", group=reports)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
