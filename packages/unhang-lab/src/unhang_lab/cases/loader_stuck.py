"""Train from shard files that a loader worker reads."""

import os
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


class Shards(Dataset):
    def __init__(self, folder, count):
        self.paths = [os.path.join(folder, f"shard_{number:03d}.txt") for number in range(count)]

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index]) as file:
            return torch.tensor([float(word) for word in file.read().split()])


def make_shards(folder, count, damaged):
    os.makedirs(folder)
    for number in range(count):
        path = os.path.join(folder, f"shard_{number:03d}.txt")
        if number == damaged:
            os.mkfifo(path)
        else:
            with open(path, "w") as file:
                file.write(" ".join(str((number * column) % 7) for column in range(32)))


def main():
    device = setup()
    rank, world = dist.get_rank(), dist.get_world_size()
    make_shards(f"shards_{rank}", count=40, damaged=17 if rank == world - 1 else None)
    loader = DataLoader(Shards(f"shards_{rank}", 40), batch_size=2, num_workers=1)
    model = DistributedDataParallel(torch.nn.Linear(32, 8).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, batch in enumerate(loader):
        loss = model(batch.to(device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
