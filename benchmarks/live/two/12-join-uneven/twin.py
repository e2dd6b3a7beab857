"""DDP on files of unequal length with the Join context; the training accuracy goes over its own group."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset

ROWS = {0: 4800, 1: 2880}


class RunningAccuracy:
    def __init__(self):
        self.group = dist.new_group(backend="gloo", timeout=timedelta(hours=1))
        self.counts = torch.zeros(2)

    def add(self, logits, y):
        self.counts += torch.tensor([(logits.argmax(1) == y).sum().item(), len(y)])

    def value(self):
        total = self.counts.clone()
        dist.all_reduce(total, group=self.group)
        self.counts.zero_()
        return (total[0] / total[1]).item()


def read_file(rank):
    g = torch.Generator().manual_seed(rank)
    x = torch.randn(ROWS[rank], 20, generator=g)
    return TensorDataset(x, x[:, :6].argmax(1))


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 6)))
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(read_file(rank), batch_size=32, shuffle=True)
    accuracy = RunningAccuracy()
    for epoch in range(3):
        with Join([model]):
            for i, (x, y) in enumerate(loader, 1):
                logits = model(x)
                loss = nn.functional.cross_entropy(logits, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                accuracy.add(logits, y)
                time.sleep(0.05)
                if i % 20 == 0 and rank == 0:
                    print(f"epoch {epoch} batch {i} loss {loss.item():.4f}", flush=True)
        acc = accuracy.value()
        if rank == 0:
            print(f"epoch {epoch} done, accuracy {acc:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
