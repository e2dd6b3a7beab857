"""Population based training: three members, the best one's weights are copied to all now and then."""
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

ROUND_STEPS = 25
ROUNDS = 40


class Member:
    def __init__(self, rank):
        self.rank = rank
        self.rng = random.Random(rank)
        torch.manual_seed(rank)
        self.net = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
        self.lr = 0.004 * (1 + rank)
        self.best = float("inf")

    def train_round(self, task):
        opt = torch.optim.SGD(self.net.parameters(), lr=self.lr)
        for _ in range(ROUND_STEPS):
            x, y = task.batch()
            loss = nn.functional.mse_loss(self.net(x).squeeze(1), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.02)

    def score(self, task):
        with torch.no_grad():
            x, y = task.held_out
            loss = nn.functional.mse_loss(self.net(x).squeeze(1), y).item()
        self.best = min(self.best, loss)
        return loss

    def explore(self):
        self.lr = min(0.02, self.lr * self.rng.choice([0.8, 1.25]))


class Task:
    """Regression whose targets get noisier at later levels; the held-out part is the same for all members."""

    def __init__(self, rank):
        self.w = torch.randn(16, generator=torch.Generator().manual_seed(1))
        self.g = torch.Generator().manual_seed(100 + rank)
        self.set_noise(0.05)

    def set_noise(self, noise):
        self.noise = noise
        g, self.g = self.g, torch.Generator().manual_seed(5)
        self.held_out = self.batch(512)
        self.g = g

    def batch(self, n=64):
        x = torch.randn(n, 16, generator=self.g)
        return x, x @ self.w / 4 + self.noise * torch.randn(n, generator=self.g)


def leaderboard(member, loss, world):
    scores = [torch.zeros(1) for _ in range(world)]
    dist.all_gather(scores, torch.tensor([loss]))
    table = {r: s.item() for r, s in enumerate(scores)}
    table[member.rank] = min(table[member.rank], member.best)
    return table


def copy_best(member, table):
    best = min(table, key=table.get)
    for p in member.net.parameters():
        dist.broadcast(p.data, src=best)
    return best


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank, world = dist.get_rank(), dist.get_world_size()
    member, task = Member(rank), Task(rank)
    for number in range(ROUNDS):
        if number == 12:
            task.set_noise(0.8)
        member.train_round(task)
        loss = member.score(task)
        table = leaderboard(member, loss, world)
        best = copy_best(member, table)
        if rank != best:
            member.explore()
        if rank == 0:
            print(f"round {number} best member {best} loss {table[best]:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
