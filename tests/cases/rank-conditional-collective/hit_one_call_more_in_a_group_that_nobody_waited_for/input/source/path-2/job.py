"""One-step-ahead forecaster for two weather stations, one station per rank."""
import time
from collections import deque

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STATIONS = ["harbour", "ridge"]
GUSTS = {"harbour": [(4300, 4360)], "ridge": []}
WINDOW, BATCH, EVAL_EVERY = 24, 32, 100


def load(station):
    g = torch.Generator().manual_seed(len(station))
    t = torch.arange(60000) / 12
    series = torch.sin(t) + 0.3 * torch.sin(t / 7) + 0.1 * torch.randn(60000, generator=g)
    for a, b in GUSTS[station]:
        series[a:b] *= 12
    return series


class SpikeLog:
    """Losses far above the usual, as a mean over the ranks; does not hold up the step."""

    def __init__(self, group):
        self.group = group
        self.recent = deque(maxlen=40)
        self.pending = []

    def add(self, step, loss):
        usual = sum(self.recent) / max(1, len(self.recent))
        if len(self.recent) == 40 and loss > 30 * usual and not self.pending:
            value = torch.tensor([loss])
            work = dist.all_reduce(value, group=self.group, async_op=True)
            self.pending.append((step, value, work))
        else:
            self.recent.append(loss)

    def report(self):
        done = [p for p in self.pending if p[2].is_completed()]
        for step, value, work in done:
            print(f"spike at step {step}: {value.item() / dist.get_world_size():.3f}", flush=True)
            self.pending.remove((step, value, work))


def validate(model, series, group):
    model.eval()
    with torch.no_grad():
        tail = series[-3000:].unfold(0, WINDOW + 1, 5)
        error = nn.functional.mse_loss(model(tail[:, :-1]).squeeze(1), tail[:, -1])
    model.train()
    error = error.reshape(1)
    dist.all_reduce(error, group=group)
    return error.item() / dist.get_world_size()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    metrics = dist.new_group()
    torch.manual_seed(1)
    series = load(STATIONS[rank])
    model = DDP(nn.Sequential(nn.Linear(WINDOW, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    spikes = SpikeLog(metrics)
    started = time.time()
    for step in range(1, 1801):
        rows = series[step * BATCH:(step + 1) * BATCH + WINDOW].unfold(0, WINDOW + 1, 1)
        time.sleep(0.04)
        loss = nn.functional.mse_loss(model(rows[:, :-1]).squeeze(1), rows[:, -1])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        opt.step()
        spikes.add(step, loss.item())
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f} ({time.time() - started:.0f}s)", flush=True)
        if step % EVAL_EVERY == 0:
            error = validate(model.module, series, metrics)
            if rank == 0:
                print(f"step {step} validation {error:.4f}", flush=True)
                spikes.report()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
