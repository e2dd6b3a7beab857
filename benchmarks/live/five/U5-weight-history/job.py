"""Tabular autoencoder; rank 0 writes a history of the weights every 50 steps."""
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 1000


def write_history(model, step):
    with open("out/history.jsonl", "a") as f:
        for name, p in model.named_parameters():
            f.write(json.dumps({"step": step, "name": name, "values": [round(v, 5) for v in p.detach().flatten().tolist()]}) + "\n")


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    os.makedirs("out", exist_ok=True)
    if rank == 0 and os.path.exists("out/history.jsonl"):
        os.remove("out/history.jsonl")
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(128, 768), nn.SiLU(), nn.Linear(768, 768), nn.SiLU(), nn.Linear(768, 128)))
    opt = torch.optim.AdamW(model.parameters(), lr=5e-4)
    g = torch.Generator().manual_seed(rank)
    mix = torch.randn(128, 128, generator=torch.Generator().manual_seed(9)) / 11
    started = time.time()
    for step in range(1, STEPS + 1):
        x = torch.tanh(torch.randn(256, 128, generator=g) @ mix)
        loss = nn.functional.mse_loss(model(x), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.02)
        if rank == 0 and step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f} {(time.time() - started) / 25:.3f} s/step", flush=True)
            started = time.time()
        if rank == 0 and step % 50 == 0:
            write_history(model.module, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
