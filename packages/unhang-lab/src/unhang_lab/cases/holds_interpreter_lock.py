"""Train, and now and then call a C library on the weights."""

import ctypes
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


def compress(weights, seconds):
    library = ctypes.PyDLL(None)
    library.usleep(int(seconds * 1e6))
    return weights.half()


def main():
    device = setup()
    rank, world = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(torch.nn.Linear(32, 8).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(30):
        loss = model(torch.randn(16, 32, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
        if step % 10 == 9:
            compress(model.module.weight.detach(), 600 if rank == world - 1 and step > 10 else 0.001)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
