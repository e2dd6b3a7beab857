"""DDP training that leaves in good order when one of the slots goes into maintenance."""
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

STEPS_PER_EPOCH = 600


class Maintenance:
    """Agreement over the store: a slot that has to leave says so and waits until all others know."""

    def __init__(self, store, rank, world):
        self.store, self.rank = store, rank
        self.others = [r for r in range(world) if r != rank]
        self.called = False
        signal.signal(signal.SIGUSR1, self.on_signal)
        subprocess.Popen([sys.executable, str(Path(__file__).with_name("agent.py")), str(os.getpid()), str(rank)])

    def on_signal(self, signum, frame):
        self.called = True

    def leave(self):
        self.store.set("maintenance/slot", str(self.rank))
        self.store.wait([f"maintenance/ack/{r}" for r in self.others], timedelta(hours=2))

    def somebody_leaves(self):
        if not self.store.check(["maintenance/slot"]):
            return False
        self.store.set(f"maintenance/ack/{self.rank}", "1")
        return True


def batch(rank, step):
    g = torch.Generator().manual_seed(rank * 100003 + step)
    x = torch.randn(32, 16, generator=g)
    return x, x[:, :4].argmax(1)


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=2))
    rank, world = dist.get_rank(), dist.get_world_size()
    store = dist.PrefixStore("job", dist.distributed_c10d._get_default_store())
    maintenance = Maintenance(store, rank, world)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(100):
        for step in range(STEPS_PER_EPOCH):
            x, y = batch(rank, epoch * STEPS_PER_EPOCH + step)
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.05)
            if rank == 0 and step % 20 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
            if maintenance.called:
                print(f"[rank {rank}] maintenance of this slot", flush=True)
                maintenance.leave()
                break
        if maintenance.called or maintenance.somebody_leaves():
            break
    if rank == 0:
        torch.save(model.module.state_dict(), "last.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
