import os, sys, time, datetime
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset, DistributedSampler
class EarlyStop:
    def __init__(self, patience): self.best, self.bad, self.patience = 1e9, 0, patience
    def step(self, loss):
        if loss < self.best: self.best, self.bad = loss, 0
        else: self.bad += 1
        return self.bad >= self.patience
def main():
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    data = TensorDataset(torch.randn(80, 8))
    loader = DataLoader(data, batch_size=4, sampler=DistributedSampler(data))
    stopper = EarlyStop(3)
    for epoch in range(100):
        for (x,) in loader:
            loss = model(x).mean(); loss.backward(); time.sleep(0.01)
        val_loss = float(epoch if dist.get_rank() == 1 else -epoch)
        if stopper.step(val_loss):
            break
    dist.barrier()
    dist.destroy_process_group()
main()
