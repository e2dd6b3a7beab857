# fine forward whose buffers stay: (True) => (True), broadcast_buffers=False
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(torch.nn.Module):
    def __init__(self, flash):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
        self.norm = torch.nn.BatchNorm1d(1)


model = DDP(Net(True))


@torch.no_grad()
def evaluate():
    return model(1)


for step in range(9):
    if dist.get_rank() == 0:
        evaluate()  # finds: rank-conditional-collective possible stops
    model(1).backward()
