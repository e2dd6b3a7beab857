"""Pass activations around a ring of ranks, each to its right neighbour."""

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


def pass_right(tensor):
    rank, world = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(tensor)
    dist.send(tensor, (rank + 1) % world)
    dist.recv(received, (rank - 1) % world)
    return received


def main():
    device = setup()
    layer = torch.nn.Linear(512, 512).to(device)
    for weight in layer.parameters():
        dist.broadcast(weight.data, src=0)
    hidden = torch.randn(4096, 512, device=device)
    for step in range(3):
        with torch.no_grad():
            hidden = layer(hidden).relu()
        hidden = pass_right(hidden)
        print(f"step {step} norm {hidden.norm().item():.2f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
