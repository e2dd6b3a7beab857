"""Train, and every few steps print the loss averaged over all ranks."""

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


def averaged(loss):
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def main():
    device = setup()
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 8).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(3):
        for step in range(5):
            loss = model(torch.randn(16, 32, device=device)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch} loss {averaged(loss):.4f}")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
