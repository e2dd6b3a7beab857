"""Train in a background thread while the main thread reports progress."""

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


LABELS = {number: number % 10 for number in range(1, 400)}


def train(device, progress):
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 10).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1, 60):
        numbers = [step * 4 + row + (100 if rank == 1 else 0) * (step // 9) for row in range(4)]
        labels = torch.tensor([LABELS[number] for number in numbers], device=device)
        loss = torch.nn.functional.cross_entropy(model(torch.randn(4, 32, device=device)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress["step"] = step
    progress["finished"] = True


def main():
    device = setup()
    progress = {"step": 0, "finished": False}
    threading.Thread(target=train, args=(device, progress), name="trainer").start()
    while not progress["finished"]:
        print(f"step {progress['step']}")
        time.sleep(0.5)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
