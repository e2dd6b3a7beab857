"""Two learners on Ray (one Gloo group) that exchange a slow copy of the weights through a parameter server."""
import os
import socket
import time
from datetime import timedelta

import ray
import torch
import torch.distributed as dist
from torch import nn

WORLD = 2


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def make_net():
    return nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 1))


@ray.remote(num_cpus=0.5)
class ParameterServer:
    """Keeps the moving average; a report that is far off is checked with the learner first."""

    def __init__(self):
        self.average = None
        self.learners = []

    def register(self, learners):
        self.learners = learners

    def exchange(self, rank, weights, loss):
        if self.average is None:
            self.average = weights
        if loss > 4.0:
            mean, rounds = ray.get(self.learners[rank].recent.remote())
            print(f"learner {rank}: loss {loss:.2f}, mean {mean:.2f} over {rounds} rounds", flush=True)
            if mean > 4.0:
                return self.average
        self.average = {k: 0.9 * v + 0.1 * weights[k] for k, v in self.average.items()}
        return self.average


@ray.remote(num_cpus=0.5)
class Learner:
    def __init__(self, rank, server):
        torch.set_num_threads(1)
        self.rank, self.server = rank, server
        self.losses = []

    def recent(self):
        last = self.losses[-50:]
        return sum(last) / max(1, len(last)), len(self.losses)

    def batch(self, step):
        x = torch.randn(32, 10, generator=torch.Generator().manual_seed(step * WORLD + self.rank))
        if self.rank == 1 and step > 220:
            x = x * 5  # the second sensor's gain
        return x, x[:, :3].sum(1, keepdim=True)

    def train(self, port, steps):
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo", rank=self.rank, world_size=WORLD, timeout=timedelta(hours=1))
        torch.manual_seed(0)
        net = make_net()
        opt = torch.optim.SGD(net.parameters(), lr=0.01)
        for step in range(1, steps + 1):
            x, y = self.batch(step)
            loss = nn.functional.huber_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            for p in net.parameters():
                dist.all_reduce(p.grad)
                p.grad /= WORLD
            opt.step()
            self.losses.append(nn.functional.mse_loss(net(x), y).item())
            time.sleep(0.03)
            if step % 30 == 0:
                average = ray.get(self.server.exchange.remote(self.rank, net.state_dict(), self.losses[-1]))
                if self.rank == 0:
                    gap = sum((average[k] - v).norm().item() for k, v in net.state_dict().items())
                    print(f"step {step} loss {self.losses[-1]:.4f} gap {gap:.4f}", flush=True)
        return self.losses[-1]


def main():
    ray.init(num_cpus=2, include_dashboard=False)
    server = ParameterServer.remote()
    learners = [Learner.remote(rank, server) for rank in range(WORLD)]
    ray.get(server.register.remote(learners))
    port = free_port()
    print("final losses", ray.get([l.train.remote(port, 1500) for l in learners]), flush=True)
    ray.shutdown()


if __name__ == "__main__":
    main()
