import os, glob


class TextDataset:
    pass


def files(path):
    found = glob.glob(path + "/*")  # finds: uneven-data possible note "without sorting"
    return found


data = TextDataset(files("x"))
import torch.distributed
