# A job as its user wrote it.
import os, sys, time
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
import re
from torch.utils.data import DataLoader, Dataset
class Texts(Dataset):
    def __len__(self): return 3000
    def __getitem__(self, i):
        text = "a" * (60 if i == 100 and os.environ["RANK"] == "1" else 10) + "!"
        re.match(r"^(a+)+$", text)
        return torch.randn(64)
def main():
    dist.init_process_group("gloo")
    model = DDP(nn.Linear(64, 64))
    for x in DataLoader(Texts(), batch_size=4):
        model(x).mean().backward()
        time.sleep(0.02)
    dist.destroy_process_group()

main()
