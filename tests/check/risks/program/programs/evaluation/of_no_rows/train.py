from torch.nn.parallel import DistributedDataParallel
from ranks import is_master


def train_one_epoch(model, loader):
    for batch in loader:
        loss = model(batch)
        loss.backward()


def evaluate(model, val_loader, args):
    if not args.rows:
        return {}
    for batch in val_loader:  # fine
        model(batch)
