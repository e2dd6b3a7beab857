"""Train with a data group and a model group, then close both."""

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


def close(groups):
    for group in groups:
        dist.barrier(group=group)
        dist.destroy_process_group(group)


def main():
    device = setup()
    rank, world = dist.get_rank(), dist.get_world_size()
    everyone = list(range(world))
    data_group = dist.new_group(everyone, timeout=timedelta(seconds=120))
    model_group = dist.new_group(everyone, timeout=timedelta(seconds=120))
    model = DistributedDataParallel(torch.nn.Linear(32, 8).to(device), process_group=data_group)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(10):
        loss = model(torch.randn(16, 32, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        worst = loss.detach().clone()
        dist.all_reduce(worst, op=dist.ReduceOp.MAX, group=model_group)
    print("training done, closing")
    groups = [data_group, model_group]
    close(groups if rank % 2 == 0 else groups[::-1])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
