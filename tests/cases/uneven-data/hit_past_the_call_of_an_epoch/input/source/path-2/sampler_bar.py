# A job as its user wrote it.
import os, sys, time
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
class Files(Dataset):
    def __init__(self, rank):
        self.items = list(range(100 + 7 * rank))
    def __len__(self): return len(self.items)
    def __getitem__(self, i): return torch.randn(64)
def run_epoch(model, opt, loader):
    for i, x in enumerate(loader):
        opt.zero_grad()
        model(x).pow(2).mean().backward()
        opt.step()
        time.sleep(0.02)
def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DDP(nn.Linear(64, 64))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Files(rank), batch_size=4)
    for epoch in range(3):
        run_epoch(model, opt, loader)
        dist.barrier()

        if rank == 0: print(epoch, flush=True)
    dist.destroy_process_group()

main()
