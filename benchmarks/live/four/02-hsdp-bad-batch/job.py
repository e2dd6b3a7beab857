"""HSDP (two replicas of two shards); a batch with a bad value is left out on all ranks that share it."""
import logging
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

EPOCH = 150
log = logging.getLogger("hsdp")


class Signals:
    """Sensor windows; some recordings have a gap, which reads as NaN."""

    GAPS = {(2, 71), (1, 212)}

    def __init__(self, rank):
        self.rank = rank

    def window(self, step):
        g = torch.Generator().manual_seed(31 * step + self.rank)
        x = torch.randn(16, 32, generator=g)
        y = x.cumsum(1)[:, ::4]
        if (self.rank, step) in self.GAPS:
            x[3, 10:14] = float("nan")
        return x, y


def usable(x, mesh):
    flag = torch.isfinite(x).all().int()
    dist.all_reduce(flag, dist.ReduceOp.MIN, group=mesh.get_group("shard"))
    return bool(flag)


def build(mesh):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8))
    for i in (0, 2):
        fully_shard(model[i], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def validate(model, rank):
    x, y = Signals(rank).window(10_000_000)
    with torch.no_grad():
        total = (model(x) - y).pow(2).mean()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replica", "shard"))
    model = build(mesh)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = Signals(rank)
    skipped = 0
    for step in range(2 * EPOCH):
        x, y = data.window(step)
        if not usable(x, mesh):
            log.info("rank %d: step %d left out", rank, step)
            skipped += 1
            continue
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        time.sleep(0.03)
        if rank == 0 and step % 25 == 0:
            log.info("step %d loss %.4f", step, loss.item())
        if step % EPOCH == EPOCH - 1:
            score = validate(model, rank)
            if rank == 0:
                log.info("epoch %d: validation %.4f, %d windows left out", step // EPOCH, score, skipped)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
