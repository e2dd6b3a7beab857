import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Linear(1, 1)
        self.drop = nn.Dropout()

    def forward(self, ids, pixel_values=None):
        if len(pixel_values) == 0:  # finds: rank-conditional-collective possible note "skips"
            return ids
        ids = self.tower(pixel_values)
        return ids


model = DDP(Net())
for batch in loader:
    model(**batch)
