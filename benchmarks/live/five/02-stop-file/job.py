"""Autoencoder for vibration spectra; can be stopped from outside with a file called STOP."""
import os
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class StopFile(threading.Thread):
    """Rank 0 looks for the file and its disk usage, everybody hears of it."""

    def __init__(self, rank, folder, every):
        super().__init__(daemon=True)
        self.rank, self.folder, self.every = rank, folder, every
        self.found = threading.Event()
        self.ended = threading.Event()

    def look(self):
        sizes = [os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(self.folder) for f in fs]
        stop = os.path.exists(os.path.join(self.folder, "STOP"))
        return torch.tensor([float(stop), sum(sizes) / 1e6])

    def run(self):
        while not self.ended.wait(self.every):
            state = self.look() if self.rank == 0 else torch.zeros(2)
            dist.broadcast(state, src=0)
            if state[0] > 0:
                self.found.set()
            if self.rank == 0:
                print(f"run folder {state[1]:.2f} MB, stop: {bool(state[0])}", flush=True)


class AutoEncoder(nn.Module):
    def __init__(self, bins=256):
        super().__init__()
        sizes = [bins, 128, 64, 16, 64, 128, bins]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.nn.functional.gelu(layer(x))
        return self.layers[-1](x)


def spectra(step, rank, count=64):
    g = torch.Generator().manual_seed(7919 * step + rank)
    t = torch.linspace(0, 1, 512)
    f = torch.randint(3, 90, (count, 3), generator=g).float()
    wave = torch.sin(6.283 * f[:, :, None] * t).sum(1) + 0.1 * torch.randn(count, 512, generator=g)
    return torch.fft.rfft(wave).abs()[:, :256].log1p()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(AutoEncoder())
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    os.makedirs("out", exist_ok=True)
    watch = StopFile(rank, "out", every=2.0)
    watch.start()
    for step in range(1, 20001):
        x = spectra(step, rank)
        loss = nn.functional.mse_loss(model(x), x)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if rank == 0 and step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
            torch.save(model.module.state_dict(), "out/last.pt")
        if watch.found.is_set():
            break
    watch.ended.set()
    watch.join()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
