"""Next-step model with DDP; rank 0 scores snapshots in a process on the side so that training goes on."""
import multiprocessing as mp
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

SCORE_EVERY = 40


def make_model():
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 64))


def held_out(rows=4096):
    g = torch.Generator().manual_seed(777)
    x = torch.randn(rows, 64, generator=g)
    return x, x.roll(1, dims=1)


def score_snapshot(model, step, results):
    x, y = held_out()
    with torch.no_grad():
        results.put((step, nn.functional.mse_loss(model(x), y).item()))


class SideScores:
    def __init__(self):
        self.ctx = mp.get_context("fork")
        self.results = self.ctx.SimpleQueue()
        self.process = None

    def start(self, model, step):
        if self.process is not None:
            self.process.join()
            step_then, score = self.results.get()
            print(f"snapshot of step {step_then}: held-out loss {score:.4f}", flush=True)
        snapshot = make_model()
        snapshot.load_state_dict(model.state_dict())
        self.process = self.ctx.Process(target=score_snapshot, args=(snapshot, step, self.results), daemon=True)
        self.process.start()


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.set_num_threads(2)
    torch.manual_seed(0)
    model = DDP(make_model())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scores = SideScores() if rank == 0 else None
    noise = torch.Generator().manual_seed(rank)
    for step in range(1, 401):
        x = torch.randn(256, 64, generator=noise)
        loss = nn.functional.mse_loss(model(x), x.roll(1, dims=1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.02)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if scores and step % SCORE_EVERY == 0:
            scores.start(model.module, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
