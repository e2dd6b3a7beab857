"""Learned reward map (DDP); every so often one rank works out how often the softmax policy visits each cell."""
import logging
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

SIZE, VISITS_EVERY = 24, 60
START = 5 * SIZE + 5
log = logging.getLogger("visits")


def cells():
    axis = torch.linspace(-1, 1, SIZE)
    return torch.cartesian_prod(axis, axis)


def true_reward(pos):
    return torch.exp(-4 * (pos - torch.tensor([0.5, -0.3])).pow(2).sum(1))


def moves():
    """For each cell the cell that up, down, left and right lead to; a wall leaves you where you are."""
    index = torch.arange(SIZE * SIZE).view(SIZE, SIZE)
    up = torch.cat([index[:1], index[:-1]])
    down = torch.cat([index[1:], index[-1:]])
    left = torch.cat([index[:, :1], index[:, :-1]], 1)
    right = torch.cat([index[:, 1:], index[:, -1:]], 1)
    return torch.stack([up, down, left, right]).flatten(1)


def visit_frequency(reward, temperature, tolerance=1e-5):
    """Stationary distribution of the policy that prefers moves to cells of high reward, from the start cell on."""
    target = moves()
    choice = torch.softmax(reward[target] / temperature, 0)
    share = torch.zeros_like(reward)
    share[START] = 1
    sweeps, change = 0, 1.0
    while change > tolerance:
        following = torch.zeros_like(share)
        for action in range(4):
            following.index_add_(0, target[action], share * choice[action])
        change = (following - share).abs().sum().item()
        share = following
        sweeps += 1
    return share, sweeps


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    noise = torch.Generator().manual_seed(rank)
    temperature = 0.8
    share = torch.zeros(SIZE * SIZE)
    for step in range(1, 2001):
        pos = torch.rand(64, 2, generator=noise) * 2 - 1
        loss = nn.functional.mse_loss(model(pos).squeeze(1), true_reward(pos))
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.04)
        if rank == 0 and step % 20 == 0:
            log.info("step %d loss %.5f", step, loss.item())
        if step % VISITS_EVERY == 0:
            if rank == world - 1:
                reward = model.module(cells()).detach().squeeze(1)
                share, sweeps = visit_frequency(reward, temperature)
                log.info("temperature %.3f: %d sweeps, most visited %.4f", temperature, sweeps, share.max())
            dist.broadcast(share, src=world - 1)
            temperature *= 0.25
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
