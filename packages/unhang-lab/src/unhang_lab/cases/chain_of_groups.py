"""Pipeline-like training: each pair of neighbours shares a group."""

import hashlib
import json
import os
import time
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


def write_shard(rows, path):
    with open(path, "w") as file:
        for row in rows:
            file.write(json.dumps({"row": row, "hash": hashlib.sha256(str(row).encode()).hexdigest()}) + "\n")
            time.sleep(0.001)


def main():
    device = setup()
    rank, world = dist.get_rank(), dist.get_world_size()
    pairs = [dist.new_group([r, r + 1], timeout=timedelta(seconds=120)) for r in range(world - 1)]
    model = torch.nn.Linear(32, 8).to(device)
    for step in range(10):
        loss = model(torch.randn(16, 32, device=device)).pow(2).mean()
        loss.backward()
        if step == 5 and rank == world - 1:
            write_shard(range(10**6), "shard.jsonl")
        if rank < world - 1:
            dist.all_reduce(model.weight.grad, group=pairs[rank])
        if rank > 0:
            dist.all_reduce(model.weight.grad, group=pairs[rank - 1])
        print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
