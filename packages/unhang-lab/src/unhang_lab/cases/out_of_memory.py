"""Train with a growing sequence length, reporting metrics from a thread."""

import os
import threading
import time
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


def report(state):
    while not state["finished"]:
        time.sleep(0.5)


def activations(rows, length, device):
    if device.type == "cpu" and rows * length * 4 > 2**40:
        raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {rows * length * 4 / 2**30:.2f} GiB.")
    return torch.randn(rows, length, device=device)


def main():
    device = setup()
    rank = dist.get_rank()
    state = {"finished": False}
    threading.Thread(target=report, args=(state,), name="metrics").start()
    model = DistributedDataParallel(torch.nn.Linear(32, 8).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(20):
        length = 2**40 if rank == 1 and step == 7 else 32
        loss = model(activations(16, length, device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
    state["finished"] = True
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
