"""Contrastive embeddings with DDP; rank 0 has an index made of the growing bank after every epoch."""
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

INDEXER = Path(__file__).with_name("indexer.py")
EPOCHS = 40


class Bank:
    """Embeddings of all epochs so far, and the class means of all of them."""

    def __init__(self, path):
        self.path = path
        self.rows = []
        signal.signal(signal.SIGUSR1, lambda *_: None)

    def add(self, emb, labels):
        self.rows += list(zip(labels.tolist(), emb.tolist()))

    def write(self):
        with open(self.path, "w") as f:
            for label, row in self.rows:
                f.write(f"{label} " + " ".join(f"{v:.5f}" for v in row) + "\n")

    def class_means(self):
        total, count = {}, {}
        for label, row in self.rows:
            old = total.get(label, [0.0] * len(row))
            total[label] = [a + b for a, b in zip(old, row)]
            count[label] = count.get(label, 0) + 1
        return {k: [v / count[k] for v in total[k]] for k in total}

    def purity(self):
        """Share of the rows whose nearest class mean is that of their own class."""
        means = self.class_means()
        right = 0
        for label, row in self.rows:
            right += label == max(means, key=lambda k: sum(a * b for a, b in zip(row, means[k])))
        return right / len(self.rows)

    def reindex(self):
        self.write()
        child = subprocess.Popen([sys.executable, "-S", str(INDEXER), self.path, str(os.getpid())])
        purity = self.purity()
        signal.pause()
        child.wait()
        return int(open(self.path + ".index").read()), purity


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    os.makedirs("out", exist_ok=True)
    bank = Bank("out/bank.txt") if rank == 0 else None
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 24))
    model = DDP(net)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    g = torch.Generator().manual_seed(rank)
    for epoch in range(EPOCHS):
        for step in range(30):
            labels = torch.arange(64) % 8
            x = torch.randn(64, 20, generator=g) * 0.5
            x[torch.arange(64), labels] += 2.0
            emb = nn.functional.normalize(model(x), dim=1)
            loss = nn.functional.cross_entropy(emb @ emb.detach().T / 0.2 - 50.0 * torch.eye(64), (torch.arange(64) + 8) % 64)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if bank:
                bank.add(emb[:48].detach(), labels[:48])
            time.sleep(0.02)
        if bank:
            rows, purity = bank.reindex()
            print(f"epoch {epoch} loss {loss.item():.4f} index of {rows} rows, purity {purity:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
