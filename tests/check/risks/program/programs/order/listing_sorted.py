import os, glob


class TextDataset:
    pass


def files(path):
    found = sorted(os.listdir(path))  # fine
    return found


data = TextDataset(files("x"))
import torch.distributed
