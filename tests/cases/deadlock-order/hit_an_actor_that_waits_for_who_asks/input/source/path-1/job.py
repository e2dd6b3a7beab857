"""Two learners in a group; the first asks the second for its sample count."""
import socket
import time
from datetime import timedelta

import ray
import torch
import torch.distributed as dist


@ray.remote(num_cpus=0.1)
class Learner:
    def __init__(self, rank, world, port):
        self.rank, self.seen, self.peers = rank, 0, []
        self.group = (world, port)

    def know(self, peers):
        self.peers = peers

    def count(self):
        return self.seen

    def learn(self, steps):
        world, port = self.group
        dist.init_process_group(
            "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=self.rank, world_size=world,
            timeout=timedelta(minutes=40),
        )
        weights = torch.zeros(100)
        for step in range(steps):
            grad = torch.randn(100)
            dist.all_reduce(grad)
            weights -= 0.01 * grad
            self.seen += 32
            time.sleep(0.05)
            if self.rank == 0 and step == 70:
                self.log_counts(step)
        dist.destroy_process_group()
        return self.seen

    def log_counts(self, step):
        counts = ray.get([peer.count.remote() for peer in self.peers])
        print("step", step, "samples", sum(counts) + self.seen, flush=True)


def main():
    ray.init(num_cpus=4, include_dashboard=False)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    learners = [Learner.remote(r, 2, port) for r in range(2)]
    ray.get([learners[0].know.remote(learners[1:]), learners[1].know.remote(learners[:1])])
    print(ray.get([a.learn.remote(2000) for a in learners]))


if __name__ == "__main__":
    main()
