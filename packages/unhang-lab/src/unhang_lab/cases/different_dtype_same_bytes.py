"""Agree on the number of steps every rank can do, then do them."""

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


def steps_for_all(rows, batch_size, device):
    steps = rows / batch_size if rows % batch_size else rows // batch_size
    shared = torch.tensor([steps], device=device)
    if shared.dtype == torch.int64:
        shared = shared.int()
    dist.all_reduce(shared, op=dist.ReduceOp.MIN)
    return int(shared.item())


def main():
    device = setup()
    rank, world = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(torch.nn.Linear(32, 8).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    rows = 320 if rank != world - 1 else 328
    steps = min(steps_for_all(rows, 16, device), 40)
    for step in range(steps):
        loss = model(torch.randn(16, 32, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}/{steps}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
