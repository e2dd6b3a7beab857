"""Policy gradient: rank 0 learns, the other ranks act; rollouts and weights go over send/recv."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

HORIZON, OBS = 32, 6


def make_policy():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(OBS, 16), nn.Tanh(), nn.Linear(16, 2))


def rollout(policy, rank, it):
    g = torch.Generator().manual_seed(1000 * rank + it)
    obs = torch.randn(HORIZON, OBS, generator=g)
    with torch.no_grad():
        act = policy(obs).argmax(-1, keepdim=True).float()
    reward = (obs[:, :1] > 0).float() * act
    if rank == 2 and it == 40:
        reward.zero_()  # the environment was reset, nothing earned
    return torch.cat([obs, act, reward], 1)


def learner(policy, actors):
    opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for it in range(5000):
        batch = []
        for a in actors:
            buf = torch.empty(HORIZON, OBS + 2)
            dist.recv(buf, src=a)
            batch.append(buf)
        data = torch.cat(batch)
        logp = torch.log_softmax(policy(data[:, :OBS]), -1)
        loss = -(logp.gather(1, data[:, OBS:OBS + 1].long()) * data[:, -1:]).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        weights = parameters_to_vector(policy.parameters()).detach()
        for a in actors:
            dist.send(weights, dst=a)
        if it % 5 == 0:
            print(f"iteration {it} reward {data[:, -1].mean().item():.3f}", flush=True)


def actor(policy, rank):
    weights = parameters_to_vector(policy.parameters()).detach().clone()
    for it in range(5000):
        episode = rollout(policy, rank, it)
        time.sleep(0.1)
        if episode[:, -1].sum() > 0:
            dist.send(episode, dst=0)
        dist.recv(weights, src=0)
        vector_to_parameters(weights, policy.parameters())


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=2))
    rank = dist.get_rank()
    policy = make_policy()
    if rank == 0:
        learner(policy, list(range(1, dist.get_world_size())))
    else:
        actor(policy, rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
