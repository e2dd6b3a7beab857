"""Evaluate a sharded test set and gather every rank's predictions."""

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


def predict(model, rows, device):
    model.eval()
    with torch.no_grad():
        return model(torch.randn(rows, 32, device=device)).squeeze(1)


def main():
    device = setup()
    rank, world = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(torch.nn.Linear(32, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(8):
        loss = model(torch.randn(16, 32, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    test_rows = 1000 * world + 13
    mine = test_rows // world + (test_rows % world if rank == world - 1 else 0)
    predictions = predict(model.module, mine, device)
    everyone = [torch.empty_like(predictions) for _ in range(world)]
    dist.all_gather(everyone, predictions)
    print("mean prediction", torch.cat(everyone).mean().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
