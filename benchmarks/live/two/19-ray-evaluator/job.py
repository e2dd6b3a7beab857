"""Two training actors and one evaluating actor on a Ray node with two CPUs."""
import os
import socket
import time
from datetime import timedelta

import ray
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

WORLD = 2


def make_net():
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))


def batch(seed):
    x = torch.randn(32, 8, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :2].sum(1, keepdim=True)


@ray.remote(num_cpus=1)
class Evaluator:
    def __init__(self):
        torch.set_num_threads(1)
        self.net = make_net()

    def score(self, weights):
        self.net.load_state_dict(weights)
        x, y = batch(999_999)
        with torch.no_grad():
            return nn.functional.mse_loss(self.net(x), y).item()


@ray.remote(num_cpus=1)
class Trainer:
    def __init__(self, rank):
        torch.set_num_threads(1)
        self.rank = rank

    def address(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            return "127.0.0.1", s.getsockname()[1]

    def train(self, address, evaluator, steps):
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = address[0], str(address[1])
        print(f"[rank {self.rank}] joining {address}", flush=True)
        dist.init_process_group("gloo", rank=self.rank, world_size=WORLD, timeout=timedelta(hours=1))
        model = DDP(make_net())
        opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        for step in range(steps):
            x, y = batch(step * WORLD + self.rank)
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.02)
            if self.rank == 0 and step % 50 == 49:
                score = ray.get(evaluator.score.remote(model.module.state_dict()))
                print(f"step {step} score {score:.4f}", flush=True)


def main():
    ray.init(num_cpus=2, include_dashboard=False)
    evaluator = Evaluator.remote()
    print("score before", ray.get(evaluator.score.remote(make_net().state_dict())), flush=True)
    trainers = [Trainer.remote(rank) for rank in range(WORLD)]
    address = ray.get(trainers[0].address.remote())
    ray.get([t.train.remote(address, evaluator, 300) for t in trainers])
    print("trained", flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
