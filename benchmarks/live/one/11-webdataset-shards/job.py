"""DDP over webdataset tar shards, split by node."""
import io
import os
import tarfile
import time
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
import webdataset as wds
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

SHARDS, PER_SHARD, BATCH = 5, 160, 16


def write_shards(folder):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(0)
    for s in range(SHARDS):
        with tarfile.open(f"{folder}/part-{s:03d}.tar", "w") as tar:
            for i in range(PER_SHARD):
                buf = io.BytesIO()
                np.save(buf, rng.standard_normal(24).astype("float32"))
                info = tarfile.TarInfo(f"{s:03d}{i:05d}.npy")
                info.size = buf.tell()
                buf.seek(0)
                tar.addfile(info, buf)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=30))
    rank = dist.get_rank()
    if rank == 0:
        write_shards("out")
    dist.barrier()
    urls = f"out/part-{{000..{SHARDS - 1:03d}}}.tar"
    data = wds.WebDataset(urls, shardshuffle=False, nodesplitter=wds.split_by_node, empty_check=False)
    data = data.decode().to_tuple("npy").batched(BATCH)
    loader = wds.WebLoader(data, batch_size=None, num_workers=0)
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(24, 8), nn.ReLU(), nn.Linear(8, 24)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(20):
        total, steps = 0.0, 0
        for (x,) in loader:
            x = torch.as_tensor(x)
            loss = (model(x) - x).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            steps += 1
            time.sleep(0.15)
            if steps % 5 == 0:
                print(f"[rank {rank}] epoch {epoch} step {steps} loss {loss.item():.4f}", flush=True)
        dist.barrier()
        mean = torch.tensor([total, steps], dtype=torch.float64)
        dist.all_reduce(mean)
        if rank == 0:
            print(f"epoch {epoch} mean loss {mean[0] / mean[1]:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
