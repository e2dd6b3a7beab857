"""Fine-tune on short texts: split, drop what is too long, shard over the ranks, train."""

import os
import random
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


class Texts(Dataset):
    def __init__(self, count=6000):
        source = random.Random(1)
        self.rows = [[source.randrange(1000) for _ in range(source.randrange(4, 64))] for _ in range(count)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return torch.tensor((self.rows[index] + [0] * 32)[:32])


def train_part(texts, rank, world):
    order = list(range(len(texts)))
    random.shuffle(order)
    kept = [index for index in order[: len(order) // 2] if len(texts.rows[index]) <= 32]
    return torch.utils.data.Subset(texts, kept[rank::world])


def main():
    device = setup()
    rank, world = dist.get_rank(), dist.get_world_size()
    loader = DataLoader(train_part(Texts(), rank, world), batch_size=4, shuffle=True)
    network = torch.nn.Sequential(torch.nn.Embedding(1000, 16), torch.nn.Flatten(), torch.nn.Linear(512, 2))
    model = DistributedDataParallel(network.to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    print(f"{len(loader)} batches")
    for step, batch in enumerate(loader):
        scores = model(batch.to(device))
        loss = torch.nn.functional.cross_entropy(scores, batch[:, 0].to(device) % 2)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}/{len(loader)} loss {loss.item():.4f}")
    dist.barrier()
    if rank == 0:
        torch.save(model.module.state_dict(), "model.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
