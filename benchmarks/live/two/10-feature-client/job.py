"""Ranking model with DDP on features from the feature store."""
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from features import FeatureClient

BATCH = 16


def start_store():
    server = subprocess.Popen([sys.executable, str(Path(__file__).with_name("feature_server.py"))],
                              stdout=subprocess.PIPE, text=True)
    return server, int(server.stdout.readline())


def item_ids(rank):
    """Rank 0 has the catalogue's checked part, rank 1 the part with new items."""
    if rank == 0:
        return [i for i in range(20000) if i % 97 != 96]
    return list(range(40000, 60000))


def load(client, ids):
    rows = [(i, client.get(i)) for i in ids]
    x = torch.tensor([f if f is not None else [0.0] * 16 for _, f in rows])
    y = torch.tensor([float(i % 2) for i, _ in rows])
    return x, y


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    server, address = None, [None]
    if rank == 0:
        server, address[0] = start_store()
    dist.broadcast_object_list(address, src=0)
    client = FeatureClient(address[0])
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)))
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    ids = item_ids(rank)
    for step in range(1000):
        chunk = ids[step * BATCH:(step + 1) * BATCH]
        client.prefetch(ids[(step + 1) * BATCH:(step + 2) * BATCH])
        x, y = load(client, chunk)
        loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.25)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    client.close()
    dist.barrier()
    if server:
        server.terminate()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
