"""Policy gradient with a novelty bonus (mean distance to the nearest earlier states), gradients averaged over ranks."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributions import Categorical

STATE, ACTIONS, LENGTH = 12, 4, 192


class Walk:
    """Random walk in a box; the small box wraps around quickly, the large one hardly ever."""

    def __init__(self, size, seed):
        self.size = size
        self.g = torch.Generator().manual_seed(seed)
        self.moves = torch.randint(-1, 2, (ACTIONS, STATE), generator=self.g).float()
        self.state = torch.zeros(STATE)

    def step(self, action):
        noise = torch.randint(-1, 2, (STATE,), generator=self.g).float()
        self.state = (self.state + self.moves[action] + noise) % self.size
        return self.state


class Archive:
    def __init__(self, limit=20000, threshold=2.0, neighbours=5):
        self.limit, self.threshold, self.neighbours = limit, threshold, neighbours
        self.states = []

    def distances(self, point):
        for other in self.states:
            yield sum([abs(a - b) for a, b in zip(point, other)])

    def bonus(self, state):
        point = tuple(state.tolist())
        nearest = sorted(self.distances(point))[:self.neighbours]
        if len(self.states) < self.limit and (not nearest or nearest[0] > self.threshold):
            self.states.append(point)
        return min(sum(nearest) / len(nearest), 10.0) if nearest else 0.0


def episode(env, policy, archive):
    logps, rewards = [], []
    state = env.state
    for _ in range(LENGTH):
        pick = Categorical(logits=policy(state / env.size), validate_args=False)
        action = pick.sample()
        logps.append(pick.log_prob(action))
        state = env.step(action.item())
        rewards.append(archive.bonus(state))
    return torch.stack(logps), torch.tensor(rewards)


def average_gradients(model):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(STATE, 32), nn.Tanh(), nn.Linear(32, ACTIONS))
    opt = torch.optim.Adam(policy.parameters(), lr=1e-3)
    torch.manual_seed(rank)
    env, archive = Walk(2 if rank == 0 else 64, rank), Archive()
    last = time.time()
    for step in range(1, 2001):
        logps, rewards = episode(env, policy, archive)
        loss = -(logps * (rewards - rewards.mean())).mean()
        opt.zero_grad()
        loss.backward()
        average_gradients(policy)
        opt.step()
        if rank == 0 and step % 5 == 0:
            print(f"step {step} reward {rewards.mean():.3f} {(time.time() - last) / 5:.2f} s/step", flush=True)
            last = time.time()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
