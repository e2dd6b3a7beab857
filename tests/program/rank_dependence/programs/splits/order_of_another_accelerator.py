from shop import Accelerator
from torch.utils.data import DataLoader


def main(data, model):
    accelerator = Accelerator()
    loader = DataLoader(data, shuffle=True)  # finds: DataLoader no-seed torch
    return accelerator.prepare(model, loader)
