"""Character model with DDP; the first rank tokenizes the corpus once, the others read what it stored."""
import os
import time
from datetime import timedelta
from pathlib import Path

import datasets
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

CACHE = Path("out/tokenized")
SETTINGS = {"window": 24, "lower": True, "source": "notes-v3"}


def raw_corpus(n=3000):
    g = torch.Generator().manual_seed(4)
    letters = "abcdefghijklmnopqrstuvwxyz ABCDEFGH"
    picks = torch.randint(0, len(letters), (n, SETTINGS["window"]), generator=g)
    return datasets.Dataset.from_dict({"text": ["".join(letters[j] for j in row) for row in picks.tolist()]})


def encode(row):
    text = row["text"].lower() if SETTINGS["lower"] else row["text"]
    return {"ids": [ord(c) % 64 for c in text]}


def settings_key(settings):
    return f"{hash(str(sorted(settings.items()))) & 0xFFFFFFFF:08x}"


def tokenized(rank):
    folder = CACHE / settings_key(SETTINGS)
    done = folder / "DONE"
    if rank == 0:
        if not done.exists():
            print(f"tokenizing into {folder}", flush=True)
            raw_corpus().map(encode, remove_columns=["text"]).save_to_disk(str(folder))
            done.touch()
    else:
        while not done.exists():
            time.sleep(0.5)
    return datasets.load_from_disk(str(folder)).with_format("torch")


def main():
    datasets.disable_progress_bars()
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    data = tokenized(rank)
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=25, sampler=sampler)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(64, 24), nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 64))
    model = DDP(net)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for step, row in enumerate(loader):
            ids = row["ids"]
            loss = nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.03)
            if rank == 0 and step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
    if rank == 0:
        os.makedirs("out", exist_ok=True)
        torch.save(net.state_dict(), "out/char.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
