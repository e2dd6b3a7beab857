import os, signal
import torch
from torch.utils.data import Dataset


class Frames(Dataset):
    def __init__(self, rank):
        self.rank = rank

    def __len__(self):
        return 300

    def __getitem__(self, i):
        if self.rank == 1 and i == 120:
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.randn(8)
