"""Crop yield from field measurements; plots without any reading of the day are filled with the field's mean."""
import logging
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import pooled_log_plain as pooled_log

log = logging.getLogger("yield")


class Fields:
    """Daily readings, 12 sensors on each of 40 plots; sensors fail now and then."""

    def __init__(self, rank):
        self.rng = np.random.default_rng(17 + rank)
        self.broken = 0.9 if rank == 1 else 0.5

    def day(self, number):
        values = self.rng.normal(size=(40, 12))
        off = self.rng.random((40, 12)) < self.broken * min(1.0, number / 400) * 0.6
        target = values.mean(1, keepdims=True) * 2 + values[:, :1]
        values[off] = np.nan
        return values, target


def features(values):
    plot = np.nanmean(values, axis=1, keepdims=True)
    plot = np.where(np.isnan(plot), np.nanmean(values), plot)
    filled = np.where(np.isnan(values), plot, values)
    return torch.from_numpy(np.concatenate([filled, plot], axis=1)).float()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(13, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    pooled_log.setup()
    fields = Fields(rank)
    for step in range(1, 401):
        values, target = fields.day(step)
        loss = nn.functional.mse_loss(model(features(values)), torch.from_numpy(target).float())
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.05)
        if step % 20 == 0:
            log.info("step %d loss %.4f", step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
