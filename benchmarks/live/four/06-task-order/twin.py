"""Multi-task learner started with mp.spawn: each task has an own head and an own group for its gradients."""
import random
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

WORLD = 2
SYNC_EVERY = 25
TASKS = {"reach": 2, "push": 3, "slide": 4, "stack": 5, "turn": 3, "pour": 2}
LEVELS = [(0, ["reach"]), (120, ["push", "slide", "stack", "turn", "pour"])]


class Learner:
    def __init__(self, rank):
        self.rank = rank
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(12, 48), nn.Tanh())
        self.heads = nn.ModuleDict({t: nn.Linear(48, n) for t, n in TASKS.items()})
        self.groups = {t: dist.new_group(timeout=timedelta(hours=1)) for t in TASKS}
        self.opt = torch.optim.SGD([*self.body.parameters(), *self.heads.parameters()], lr=0.02)
        self.rounds = {}

    def step(self, task, x, y):
        loss = nn.functional.cross_entropy(self.heads[task](self.body(x)), y)
        self.opt.zero_grad()
        loss.backward()
        for p in self.body.parameters():
            dist.all_reduce(p.grad)
            p.grad /= WORLD
        self.opt.step()
        self.rounds[task] = self.rounds.get(task, 0) + 1
        return loss.item()

    def sync_heads(self):
        """Average the heads of the tasks that were played; returns the rounds per task."""
        with torch.no_grad():
            for task in TASKS:
                flat = nn.utils.parameters_to_vector(self.heads[task].parameters())
                dist.all_reduce(flat, group=self.groups[task])
                nn.utils.vector_to_parameters(flat / WORLD, self.heads[task].parameters())
        return dict(self.rounds)


def unlocked(step):
    return [t for start, tasks in LEVELS if step >= start for t in tasks]


def play(task, rng):
    x = torch.tensor([[rng.gauss(0, 1) for _ in range(12)] for _ in range(16)])
    return x, x[:, :TASKS[task]].argmax(1)


def worker(rank, init_file):
    dist.init_process_group("gloo", init_method=f"file://{init_file}", rank=rank, world_size=WORLD,
                            timeout=timedelta(hours=1))
    torch.set_num_threads(1)
    rng = random.Random(rank)
    learner = Learner(rank)
    for step in range(1, 401):
        task = rng.choice(unlocked(step))
        loss = learner.step(task, *play(task, rng))
        time.sleep(0.05)
        if step % SYNC_EVERY == 0:
            rounds = learner.sync_heads()
            if rank == 0:
                print(f"step {step} {task} loss {loss:.4f} rounds {rounds}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as tmp:
        mp.spawn(worker, args=(f"{tmp}/init",), nprocs=WORLD)
