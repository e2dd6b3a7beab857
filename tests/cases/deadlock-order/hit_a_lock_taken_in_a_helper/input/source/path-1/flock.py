"""Ranks share a results file behind flock; one goes into a collective with the lock."""
import contextlib, fcntl, json, os, torch
import torch.distributed as dist
from base import start, step

@contextlib.contextmanager
def locked(path):
    with open(path, "a+") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        try:
            yield f
        finally:
            fcntl.flock(f, fcntl.LOCK_UN)

def record(path, i, loss):
    with locked(path) as f:
        worst = torch.tensor([loss])
        if i > 100:
            dist.all_reduce(worst, op=dist.ReduceOp.MAX)
        f.write(json.dumps({"step": i, "worst": worst.item()}) + "\n")

rank, model, opt = start()
os.makedirs("out", exist_ok=True)
for i in range(1, 4000):
    loss = step(model, opt)
    if rank == 0 and i % 20 == 0:
        print(f"step {i} loss {loss:.4f}", flush=True)
    if i % 50 == 0:
        record("out/results.jsonl", i, loss)
