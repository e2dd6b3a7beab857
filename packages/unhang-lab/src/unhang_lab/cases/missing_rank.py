"""Train a small regressor, then compare the ranks' validation losses."""

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


def validation_loss(model, device):
    with torch.no_grad():
        return model(torch.randn(64, 32, device=device)).pow(2).mean()


def main():
    device = setup()
    rank, world = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(torch.nn.Linear(32, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(12):
        loss = model(torch.randn(16, 32, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
    mine = validation_loss(model, device)
    if rank != world - 1:
        losses = [torch.zeros_like(mine) for _ in range(world)]
        dist.all_gather(losses, mine)
        print("validation", [f"{loss.item():.4f}" for loss in losses])
    dist.barrier()
    print("finished")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
