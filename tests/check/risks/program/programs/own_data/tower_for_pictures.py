# fine tower in training: pixel_values is not None => self.training
# fine tower on both sides: ids = self.tower(pixel_values) => ids = self.tower(pixel_values)\n        else:\n            ids = self.tower(ids) * 0
# fine tower with unused parameters: Net() => Net(), find_unused_parameters=True
# fine tower without parameters: = self.tower => = self.drop
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Linear(1, 1)
        self.drop = nn.Dropout()

    def forward(self, ids, pixel_values=None):
        if pixel_values is not None:  # finds: rank-conditional-collective possible note "skips"
            ids = self.tower(pixel_values)
        return ids


model = DDP(Net())
for batch in loader:
    model(**batch)
