"""DDP with a curriculum: the first rank decides the phase of an epoch and tells it over the store."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def decide(epoch, history):
    """Harder data as soon as the loss went down by a tenth."""
    if len(history) < 2 or history[-1] < 0.9 * min(history[:-1]):
        return 0.1 * (epoch + 1)
    return None


def phase_of(epoch, history, store, rank):
    if rank == 0:
        noise = decide(epoch, history)
        if noise is None:
            return phase_of.last
        store.set(f"curriculum/epoch{epoch}", str(noise))
        phase_of.last = noise
        return noise
    return float(store.get(f"curriculum/epoch{epoch}"))


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=50))
    rank = dist.get_rank()
    store = dist.distributed_c10d._get_default_store()
    torch.manual_seed(1)
    model = DDP(nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 20)))
    opt = torch.optim.SGD(model.parameters(), lr=0.2)
    history = []
    for epoch in range(400):
        noise = phase_of(epoch, history, store, rank)
        total = 0.0
        for step in range(12):
            x = torch.randn(32, 20)
            loss = (model(x + noise * torch.randn_like(x)) - x).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            time.sleep(0.04)
        history.append(total / 12)
        if rank == 0:
            print(f"epoch {epoch} noise {noise:.2f} loss {history[-1]:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
