"""Replay-based learner: every rank acts, keeps a journal of its transitions on disk and learns from the replay."""
import random
import time
from collections import deque
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from journal import Journal


class Cart:
    def __init__(self, seed, wear):
        self.rng = random.Random(seed)
        self.pos = self.speed = 0.0
        self.spring, self.wear = 0.3, wear

    def step(self, push):
        before = (self.pos, self.speed)
        self.spring = max(-0.02, self.spring - self.wear)
        self.speed = 0.95 * self.speed - self.spring * self.pos + 0.1 * push + self.rng.gauss(0, 0.02)
        self.pos = max(-8.0, min(8.0, self.pos + self.speed))
        reward = -abs(self.pos)
        return before, reward, (self.pos, self.speed)


def act(net, cart, epsilon, count):
    """Some transitions with the present policy."""
    out = []
    for _ in range(count):
        with torch.no_grad():
            action = int(net(torch.tensor([cart.pos, cart.speed])).argmax())
        if cart.rng.random() < epsilon:
            action = cart.rng.randrange(3)
        before, reward, after = cart.step(action - 1)
        out.append((before, action, reward, after))
    return out


def learn(model, opt, batch):
    obs, actions, rewards, after = (torch.tensor(c) for c in zip(*batch))
    with torch.no_grad():
        target = rewards + 0.95 * model.module(after).max(1).values
    q = model(obs).gather(1, actions[:, None]).squeeze(1)
    loss = nn.functional.smooth_l1_loss(q, target)
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    torch.set_num_threads(1)
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 3)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    cart, replay = Cart(rank, wear=4e-5 * rank), deque(maxlen=20000)
    journal = Journal(f"journal.{rank}")
    started = time.time()
    for step in range(1, 3001):
        fresh = act(model.module, cart, 0.3, 40)
        journal.append(step, fresh)
        replay.extend(fresh)
        loss = learn(model, opt, random.sample(replay, min(64, len(replay))))
        time.sleep(0.03)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} loss {loss:.4f} {(time.time() - started) / 20:.3f} s/step", flush=True)
            started = time.time()
    journal.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
