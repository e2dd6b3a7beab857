"""Train a model whose dense and expert weights are averaged in two groups."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist


def setup():
    backend = os.environ.get("TRAIN_BACKEND", "gloo")
    dist.init_process_group(backend, timeout=timedelta(seconds=120))
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def average(weights, group):
    flat = torch.cat([weight.grad.flatten() for weight in weights])
    dist.all_reduce(flat, group=group)
    return flat / dist.get_world_size(group)


def main():
    device = setup()
    rank, world = dist.get_rank(), dist.get_world_size()
    dense_group = dist.new_group(list(range(world)), timeout=timedelta(seconds=120))
    expert_group = dist.new_group(list(range(world)), timeout=timedelta(seconds=120))
    dense, expert = torch.nn.Linear(32, 32).to(device), torch.nn.Linear(32, 8).to(device)
    for step in range(10):
        for weight in [*dense.parameters(), *expert.parameters()]:
            weight.grad = None
        expert(dense(torch.randn(16, 32, device=device)).relu()).pow(2).mean().backward()
        ready_first = "expert" if step == 6 and rank == 0 else "dense"
        if ready_first == "dense":
            average(dense.parameters(), dense_group)
            average(expert.parameters(), expert_group)
        else:
            average(expert.parameters(), expert_group)
            average(dense.parameters(), dense_group)
        print(f"step {step}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
