"""DDP over an indexed corpus. The sample index is refreshed in the background when a shard changed."""
import ctypes
import signal
import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Corpus(Dataset):
    def __init__(self, n):
        self.n = n
        self.lock = threading.Lock()
        self.offsets = list(range(n))

    def refresh(self):
        with self.lock:
            fresh = []
            for i in range(self.n):
                fresh.append(i)
                time.sleep(0.002)
            self.offsets = fresh

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        with self.lock:
            off = self.offsets[i]
        g = torch.Generator().manual_seed(off)
        x = torch.randn(32, generator=g)
        return x, x[:2].sum()


def end_with_parent(worker_id):
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    corpus = Corpus(1280)
    sampler = DistributedSampler(corpus)
    loader = DataLoader(corpus, batch_size=16, sampler=sampler, num_workers=2, multiprocessing_context="fork",
                        worker_init_fn=end_with_parent)
    model = DDP(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1)))
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    for epoch in range(50):
        sampler.set_epoch(epoch)
        if epoch == 3 and rank == 1:
            print("shard 1 changed on disk, refreshing the index", flush=True)
            threading.Thread(target=corpus.refresh, daemon=True).start()
            time.sleep(0.05)
        for step, (x, y) in enumerate(loader):
            loss = nn.functional.mse_loss(model(x).squeeze(1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.02)
            if rank == 0 and step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
