"""Data-parallel training on Ray actors: each actor is one rank of a Gloo group."""
import os
import socket
import time
from datetime import timedelta

import ray
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

WORLD = 3
CLASSES = 6


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def read_part(rank):
    g = torch.Generator().manual_seed(rank)
    x = torch.randn(6000, 16, generator=g)
    y = x[:, :CLASSES].argmax(1)
    if rank == 1:
        y[1000] = CLASSES  # a class that came with the newer export
    return x, y


@ray.remote(num_cpus=0.5)
class TrainWorker:
    def __init__(self, rank):
        self.rank = rank

    def setup(self, port):
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        torch.set_num_threads(1)
        dist.init_process_group("gloo", rank=self.rank, world_size=WORLD, timeout=timedelta(hours=1))
        torch.manual_seed(0)
        self.model = DDP(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, CLASSES)))
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05)

    def train(self, epochs):
        x, y = read_part(self.rank)
        for epoch in range(epochs):
            for i in range(0, len(x), 30):
                loss = nn.functional.cross_entropy(self.model(x[i:i + 30]), y[i:i + 30])
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                time.sleep(0.05)
                if self.rank == 0 and i % 600 == 0:
                    print(f"epoch {epoch} row {i} loss {loss.item():.4f}", flush=True)
        return loss.item()


def main():
    ray.init(num_cpus=2, include_dashboard=False)
    port = free_port()
    workers = [TrainWorker.remote(rank) for rank in range(WORLD)]
    ray.get([w.setup.remote(port) for w in workers])
    runs = [w.train.remote(epochs=20) for w in workers]
    for rank, run in enumerate(runs):
        print(f"rank {rank} ended with loss {ray.get(run):.4f}", flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
