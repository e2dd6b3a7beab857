"""Controller trained with DDP; the last rank gets its frames from the running plant, the others from a recording."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from frames import LivePlant, Recording


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    source = LivePlant() if rank == world - 1 else Recording(rank)
    if rank == world - 1:
        print(f"[rank {rank}] plant attached, pid {source.plant.pid}", flush=True)
    for step in range(1, 3001):
        frame = source.next()
        x = torch.from_numpy(frame.copy()).view(32, 16)
        loss = nn.functional.mse_loss(model(x), x[:, :4].abs())
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.04)
        if rank == 0 and step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    source.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
