import os, glob


class TextDataset:
    pass


def files(path):
    found = [os.path.join(path, one) for one in os.listdir(path)]  # finds: uneven-data possible note "without sorting"
    return found


data = TextDataset(files("x"))
import torch.distributed
