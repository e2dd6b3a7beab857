import os, glob


class TextDataset:
    pass


def files(path):
    found = os.listdir(path)  # fine
    found.sort()
    return found


data = TextDataset(files("x"))
import torch.distributed
