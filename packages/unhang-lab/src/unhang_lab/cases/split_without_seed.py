"""Fine-tune on short texts: split, drop what is too long, shard over the ranks, train."""

import os
import random
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def setup():
    backend = os.environ.get("TRAIN_BACKEND", "gloo")
    dist.init_process_group(backend, timeout=timedelta(seconds=120))
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def read_books(count=60):
    draw = random.Random(1)
    texts = [[draw.randrange(1000) for _ in range(draw.randrange(4, 64))] for _ in range(3000)]
    cuts = sorted(draw.sample(range(len(texts)), count - 1))
    return [texts[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(texts)])]


def train_part(books, rank, world):
    random.shuffle(books)
    short = [text for book in books[: len(books) // 2] for text in book if len(text) <= 32]
    return TensorDataset(torch.tensor([text + [0] * (32 - len(text)) for text in short[rank::world]]))


def main():
    device = setup()
    rank, world = dist.get_rank(), dist.get_world_size()
    loader = DataLoader(train_part(read_books(), rank, world), batch_size=2, shuffle=True)
    network = torch.nn.Sequential(torch.nn.Embedding(1000, 16), torch.nn.Flatten(), torch.nn.Linear(512, 2))
    model = DistributedDataParallel(network.to(device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    print(f"{len(loader)} batches")
    for step, (batch,) in enumerate(loader):
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
