"""Train, and keep a running mean of the gradient norm over all ranks."""

import os
from datetime import timedelta

import numpy
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


def clipped(norms, limit):
    if norms.max() > limit:
        norms = torch.from_numpy(numpy.minimum(norms.cpu().numpy(), numpy.full(len(norms), limit))).to(norms.device)
    return norms


def share_norms(norms, limit=50.0):
    norms = clipped(norms, limit)
    dist.all_reduce(norms)
    return norms.mean().item() / dist.get_world_size()


def main():
    device = setup()
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 8).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(20):
        rows = torch.randn(16, 32, device=device)
        loss = model(rows).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        norms = rows.norm(dim=1)
        if rank == 1 and step == 9:
            norms[3] = 64.0
        print(f"step {step} mean norm {share_norms(norms)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
