"""Train a small network, average the loss of every epoch over the ranks, save, finish."""

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


def main():
    device = setup()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(32, 8).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(3):
        for step in range(20):
            loss = model(torch.randn(16, 32, device=device)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        mean /= dist.get_world_size()
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {mean.item():.4f}")
            torch.save(model.module.state_dict(), "model.pt")
        dist.barrier()
    print("finished")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
