import torch
import torch.distributed as dist


class Stage:
    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.net = torch.nn.Linear(16, 16)

    def receive(self):
        x = torch.empty(4, 16)
        dist.recv(x, src=self.rank - 1)
        return x

    def forward(self, micro_batches):
        for number in range(micro_batches):
            x = torch.randn(4, 16) if self.rank == 0 else self.receive()
            y = self.net(x).detach()
            if self.rank < self.world - 1:
                dist.send(y, dst=self.rank + 1)
