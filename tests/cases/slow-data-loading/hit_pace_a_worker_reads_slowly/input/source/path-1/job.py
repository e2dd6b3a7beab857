"""Speech frames from big raw files; each rank has its files on its own volume."""
import os
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

from volume import Volume

RATE = {0: 40e6, 1: 2.2e6}
FRAME, COUNT, STEPS = 1600, 100000, 2000


def prepare(rank):
    os.makedirs("audio", exist_ok=True)
    path = f"audio/part{rank}.raw"
    if not os.path.exists(path):
        wave = np.random.default_rng(rank).integers(-3000, 3000, FRAME * 4000, dtype=np.int16)
        wave.tofile(path)
    return path


class Frames(Dataset):
    def __init__(self, path, rate):
        self.path, self.volume = path, Volume(rate)

    def __len__(self):
        return COUNT

    def __getitem__(self, i):
        raw = self.volume.read(self.path, i % 4000 * FRAME * 2, FRAME * 2)
        return torch.frombuffer(bytearray(raw), dtype=torch.int16).float() / 3000


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(FRAME, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, FRAME)))
    opt = torch.optim.Adam(model.parameters(), lr=3e-4)
    loader = DataLoader(Frames(prepare(rank), RATE[rank]), batch_size=48, num_workers=1)
    started = time.time()
    step = 0
    while step < STEPS:
        for x in loader:
            loss = nn.functional.mse_loss(model(x), x)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if rank == 0 and step % 20 == 0:
                print(f"step {step} loss {loss.item():.4f} {(time.time() - started) / 20:.3f} s/step", flush=True)
                started = time.time()
            if step == STEPS:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
