from torch.nn.parallel import DistributedDataParallel
from ranks import is_master


def train_one_epoch(model, loader):
    for batch in loader:
        loss = model(batch)
        loss.backward()


def evaluate(model, val_loader, args):
    for batch in val_loader:  # finds: single-rank-work likely slows "train.py:8" "600"
        model(batch)
