"""Preference model with DDP on four ranks; ranks 0 and 1 also judge answers and pool their scores.

The steps' losses go over a group of their own once there are enough of them."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Shard
from torch.nn.parallel import DistributedDataParallel as DDP

JUDGES = [0, 1]
JUDGE_EVERY = 80
REPORT_EVERY = 120


class Judge:
    """Scores a set of answers, split over the judging ranks."""

    def __init__(self, ranks, group):
        self.ranks = ranks
        self.mesh = DeviceMesh.from_group(group, "cpu", mesh=ranks, mesh_dim_names=("judge",))
        self.answers = torch.randn(64, 32, generator=torch.Generator().manual_seed(9))

    @torch.no_grad()
    def __call__(self, model):
        mine = self.answers.chunk(len(self.ranks))[self.mesh.get_local_rank()]
        scores = DTensor.from_local(model(mine).squeeze(1), self.mesh, [Shard(0)])
        return scores.full_tensor().mean().item()


class Report:
    def __init__(self):
        self.group = dist.new_group(timeout=timedelta(minutes=45))

    def __call__(self, step, losses):
        parts = [None] * dist.get_world_size()
        dist.all_gather_object(parts, sum(losses) / len(losses), group=self.group)
        if dist.get_rank() == 0:
            print(f"step {step} mean losses {[round(p, 4) for p in parts]}", flush=True)
        losses.clear()


def pairs(rank, step):
    g = torch.Generator().manual_seed(1000 * rank + step)
    return torch.randn(16, 32, generator=g) + 0.3, torch.randn(16, 32, generator=g)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=45))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 1)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    group = dist.new_group(JUDGES, timeout=timedelta(minutes=45))
    judge, report = Judge(JUDGES, group) if rank in JUDGES else None, None
    losses = []
    for step in range(1, 301):
        good, bad = pairs(rank, step)
        scores = model(torch.cat([good, bad]))
        loss = -nn.functional.logsigmoid(scores[:16] - scores[16:]).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
        time.sleep(0.02)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step % JUDGE_EVERY == 0 and rank in JUDGES:
            score = judge(model.module)
            if rank == 0:
                print(f"step {step} judged {score:.4f}", flush=True)
        if step % REPORT_EVERY == 0:
            report = report or Report()
            report(step, losses)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
