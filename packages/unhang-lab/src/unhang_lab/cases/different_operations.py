"""Train with early stopping: the ranks tell each other whether the loss is still finite."""

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


def share_health(loss):
    state = loss.detach().reshape(1).clone()
    if torch.isfinite(state).item():
        dist.all_reduce(state, op=dist.ReduceOp.MAX)
    else:
        dist.broadcast(state, src=0)
    return state.item()


def batch_for(step, rank, device):
    rows = torch.randn(16, 32, device=device)
    if step == 6 and rank == 1:
        rows[0, 0] = float("inf")
    return rows


def main():
    device = setup()
    rank = dist.get_rank()
    model = torch.nn.Linear(32, 8).to(device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(20):
        loss = model(batch_for(step, rank, device)).pow(2).mean()
        worst = share_health(loss)
        print(f"step {step} worst loss {worst:.4f}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
