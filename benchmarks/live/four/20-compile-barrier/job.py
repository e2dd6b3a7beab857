"""Dynamics model; after the warm-up one rank compiles the planner, the others meet it at a barrier."""
import os
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

WARMUP, PLAN_EVERY, HORIZON = 120, 40, 16


class Dynamics(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 8))

    def forward(self, state, action):
        return state + 0.1 * self.net(torch.cat([state, action], -1))


def make_planner(model):
    def plan(state, actions):
        cost = torch.zeros(actions.shape[0])
        for t in range(HORIZON):
            state = model(state, actions[:, t])
            cost = cost + state.pow(2).sum(-1) + torch.where(state[:, 0] > 1, state[:, 1].sin(), state[:, 2].cos())
        return cost

    return torch.compile(plan)


def improve(planner, state):
    """Random shooting: the best of 128 action sequences."""
    actions = torch.randn(128, HORIZON, 2)
    with torch.no_grad():
        cost = planner(state.expand(128, -1), actions)
    return actions[cost.argmin(), 0], cost.min().item()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=30))
    rank = dist.get_rank()
    torch.manual_seed(0)
    dynamics = Dynamics()
    model = DDP(dynamics)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp(prefix="planner-"))
    planner = None
    noise = torch.Generator().manual_seed(rank)
    for step in range(1, 1001):
        state, action = torch.randn(64, 8, generator=noise), torch.randn(64, 2, generator=noise)
        target = state.roll(1, 1) * 0.1 + state
        loss = nn.functional.mse_loss(model(state, action), target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.06)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss.item():.5f}", flush=True)
        if step >= WARMUP and step % PLAN_EVERY == 0:
            if rank == 1:
                planner = planner or make_planner(dynamics)
                best, cost = improve(planner, torch.randn(1, 8))
                print(f"step {step}: best action {best.tolist()} cost {cost:.2f}", flush=True)
            dist.monitored_barrier(timeout=timedelta(seconds=8))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
