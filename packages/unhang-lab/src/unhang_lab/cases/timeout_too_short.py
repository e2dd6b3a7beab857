"""Train, then score the validation set on rank 0 before the next epoch."""

import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def setup():
    backend = os.environ.get("TRAIN_BACKEND", "gloo")
    dist.init_process_group(backend, timeout=timedelta(seconds=4))
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def score(model, batches, device):
    total = 0.0
    for number in range(batches):
        with torch.no_grad():
            total += model(torch.randn(256, 32, device=device)).mean().item()
        time.sleep(0.1)
        if number % 10 == 0:
            print(f"evaluating: {number}/{batches} batches")
    return total / batches


def main():
    device = setup()
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 8).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(4):
        for step in range(10):
            loss = model(torch.randn(16, 32, device=device)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch} score {score(model.module, 10 + 110 * epoch, device):.4f}")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
