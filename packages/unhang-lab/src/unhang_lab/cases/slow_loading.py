"""Train from a data set that every rank reads for itself."""

import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


def setup():
    backend = os.environ.get("TRAIN_BACKEND", "gloo")
    dist.init_process_group(backend, timeout=timedelta(seconds=120))
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


class Rows(Dataset):
    def __init__(self, path, count, delay_s):
        self.path, self.count, self.delay_s = path, count, delay_s
        with open(path, "wb") as file:
            file.write(os.urandom(32 * count))

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        with open(self.path, "rb") as file:
            time.sleep(self.delay_s)
            file.seek(32 * index)
            return torch.frombuffer(bytearray(file.read(32)), dtype=torch.uint8).float() / 255


def main():
    device = setup()
    rank, world = dist.get_rank(), dist.get_world_size()
    rows = Rows(f"rows_{rank}.bin", 8000, delay_s=0.05 if rank == world - 1 else 0.0)
    model = DistributedDataParallel(torch.nn.Linear(32, 8).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, batch in enumerate(DataLoader(rows, batch_size=4, num_workers=1)):
        loss = model(batch.to(device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
