"""Policy gradient with a collector process per rank; a collector with a stale policy is replaced."""
import tempfile
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from collector import collect

WORLD = 2
BATCH = 8


def make_policy():
    return nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 3))


class Collector:
    """Runs collect() in a process and hands out its episodes."""

    def __init__(self, seed):
        self.ctx = mp.get_context("spawn")
        self.seed = seed
        self.process = None

    def start(self, weights):
        self.queue = self.ctx.Queue()
        self.halt = self.ctx.Event()
        self.seed += 1000
        weights = {k: v.numpy().copy() for k, v in weights.items()}
        self.process = self.ctx.Process(target=collect, args=(self.queue, self.halt, weights, self.seed))
        self.process.start()

    def replace(self, weights):
        self.halt.set()
        self.process.join()
        self.queue.close()
        self.start(weights)

    def take(self, count):
        return [self.queue.get() for _ in range(count)]


def update(model, opt, episodes):
    loss = 0.0
    for obs, actions, gain in episodes:
        logp = model(torch.from_numpy(obs)).log_softmax(1)
        loss = loss - gain * logp[torch.arange(len(actions)), torch.from_numpy(actions)].mean()
    opt.zero_grad()
    (loss / len(episodes)).backward()
    opt.step()
    return sum(e[2] for e in episodes) / len(episodes)


def worker(rank, init_file):
    dist.init_process_group("gloo", init_method=f"file://{init_file}", rank=rank, world_size=WORLD,
                            timeout=timedelta(hours=1))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DDP(make_policy())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    collector = Collector(seed=rank)
    collector.start(model.module.state_dict())
    age, limit = 0, 150 + 40 * rank
    for step in range(1, 601):
        gain = update(model, opt, collector.take(BATCH))
        age += 1
        time.sleep(0.05)
        if rank == 0 and step % 20 == 0:
            print(f"update {step} mean gain {gain:.4f}", flush=True)
        if age >= limit:
            print(f"[rank {rank}] policy of the collector is {age} updates old", flush=True)
            collector.replace(model.module.state_dict())
            age = 0
    collector.process.terminate()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as tmp:
        mp.spawn(worker, args=(f"{tmp}/init",), nprocs=WORLD, daemon=False)
