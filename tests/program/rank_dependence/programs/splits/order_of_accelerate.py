from accelerate import Accelerator
from torch.utils.data import DataLoader


def main(data, model):
    accelerator = Accelerator()
    kept = data.train_test_split(0.1)  # finds: data.train_test_split no-seed numpy
    loader = DataLoader(kept["train"], shuffle=True)  # fine
    return accelerator.prepare(model, loader)
