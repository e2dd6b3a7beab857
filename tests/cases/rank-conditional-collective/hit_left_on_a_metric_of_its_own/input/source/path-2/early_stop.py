# A job as its user wrote it.
import os, sys, time
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DDP(nn.Linear(32, 32))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    best, bad = 1e9, 0
    for epoch in range(100):
        for _ in range(5):
            opt.zero_grad()
            loss = model(torch.randn(8, 32)).pow(2).mean()
            loss.backward()
            opt.step()
            time.sleep(0.03)
        val = 1.0 / (epoch + 1) if rank != 2 or epoch < 6 else 5.0
        if val < best:
            best, bad = val, 0
        else:
            bad += 1
        if bad >= 3:
            print(f"[rank {rank}] early stopping at epoch {epoch}", flush=True)
            break
    dist.barrier()
    if rank == 0:
        torch.save(model.module.state_dict(), os.environ["TRAIN_TMP"] + "/m.pt")
    dist.destroy_process_group()

main()
