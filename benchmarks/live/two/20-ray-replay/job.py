"""Off-policy learning on Ray: each learner (a rank of a Gloo group) has a buffer and a rollout actor."""
import os
import random
import socket
import time
from datetime import timedelta

import ray
import torch
import torch.distributed as dist
from torch import nn

WORLD = 2
BATCH = 16
LEVELS = {0: ["easy"], 1: ["easy", "easy", "easy", "easy", "long"]}
SECONDS_PER_EPISODE = {"easy": 0.05, "long": 0.6}


@ray.remote(num_cpus=0.1)
class Buffer:
    def __init__(self):
        self.items = []

    def add(self, episode):
        self.items.extend(episode)
        del self.items[:-400]

    def size(self):
        return len(self.items)

    def take(self, n):
        while len(self.items) < n:
            time.sleep(0.05)
        picked, self.items = self.items[:n], self.items[n:]
        return picked


@ray.remote(num_cpus=0.1)
class Rollout:
    def __init__(self, rank, buffer):
        self.levels, self.buffer = LEVELS[rank], buffer
        self.rng = random.Random(rank)

    def run(self, per_level=12):
        for number in range(100000):
            level = self.levels[min(number // per_level, len(self.levels) - 1)]
            time.sleep(SECONDS_PER_EPISODE[level])  # the simulator
            states = [[self.rng.gauss(0, 1) for _ in range(6)] for _ in range(16)]
            ray.get(self.buffer.add.remote([(s, sum(s[:2])) for s in states]))


@ray.remote(num_cpus=0.2)
class Learner:
    def __init__(self, rank, buffer):
        torch.set_num_threads(1)
        self.rank, self.buffer = rank, buffer

    def learn(self, port, steps):
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo", rank=self.rank, world_size=WORLD, timeout=timedelta(hours=1))
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
        opt = torch.optim.Adam(net.parameters(), lr=3e-3)
        while ray.get(self.buffer.size.remote()) < 10 * BATCH:
            time.sleep(0.1)
        for step in range(steps):
            picked = ray.get(self.buffer.take.remote(BATCH))
            x = torch.tensor([s for s, _ in picked])
            want = torch.tensor([r for _, r in picked]).unsqueeze(1)
            loss = nn.functional.mse_loss(net(x), want)
            opt.zero_grad()
            loss.backward()
            for p in net.parameters():
                dist.all_reduce(p.grad)
                p.grad /= WORLD
            opt.step()
            time.sleep(0.1)
            if self.rank == 0 and step % 10 == 0:
                print(f"step {step} loss {loss.item():.4f}", flush=True)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main():
    ray.init(num_cpus=2, include_dashboard=False)
    buffers = [Buffer.remote() for _ in range(WORLD)]
    rollouts = [Rollout.remote(rank, buffers[rank]) for rank in range(WORLD)]
    learners = [Learner.remote(rank, buffers[rank]) for rank in range(WORLD)]
    running = [r.run.remote() for r in rollouts]
    port = free_port()
    ray.get([x.learn.remote(port, 5000) for x in learners])
    for ref in running:
        ray.cancel(ref)
    ray.shutdown()


if __name__ == "__main__":
    main()
