"""A loader worker of rank 1 is stopped by somebody."""
import os, signal, sys, time, torch
from torch.utils.data import DataLoader, Dataset, get_worker_info
from base import start, step

class Rows(Dataset):
    def __len__(self): return 40000
    def __getitem__(self, i):
        if i == 1500 and os.environ["RANK"] == "1" and len(sys.argv) > 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        return torch.randn(16)

rank, model, opt = start()
for i, x in enumerate(DataLoader(Rows(), batch_size=8, num_workers=2), 1):
    loss = model(x).square().mean()
    opt.zero_grad(); loss.backward(); opt.step(); time.sleep(0.02)
    if rank == 0 and i % 20 == 0:
        print(f"step {i} loss {loss.item():.4f}", flush=True)
