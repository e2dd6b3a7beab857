"""Curriculum training with DDP; rank 0 looks for hard examples in a process of its own after every epoch."""
import multiprocessing as mp
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

EPOCHS = 12


def make_split(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 12, generator=g)
    wrong = torch.rand(n, generator=g) < 0.1
    y = ((x[:, 0] * x[:, 1] > 0) ^ wrong).long()
    return x, y


def describe(index, values, label, margin):
    top = sorted(range(len(values)), key=lambda j: -abs(values[j]))[:5]
    return {
        "index": index,
        "label": label,
        "margin": round(margin, 4),
        "features": {f"feature-{j:02d}": round(values[j], 4) for j in top},
    }


def mine(rows, results):
    """Runs in a process of its own: the description of every example that is still wrong."""
    results.put([describe(*row) for row in rows if row[3] < 0])


@torch.no_grad()
def hard_examples(net, x, y):
    logits = net(x)
    margin = logits.gather(1, y[:, None])[:, 0] - logits.gather(1, 1 - y[:, None])[:, 0]
    rows = list(zip(range(len(x)), x.tolist(), y.tolist(), margin.tolist()))
    ctx = mp.get_context("fork")
    results = ctx.Queue()
    worker = ctx.Process(target=mine, args=(rows, results), daemon=True)
    worker.start()
    worker.join()
    return results.get()


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 2))
    model = DDP(net)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    train_x, train_y = make_split(3200, 10 + rank)
    pool_x, pool_y = make_split(12000, 3)
    for epoch in range(EPOCHS):
        for i in range(0, len(train_x), 64):
            loss = nn.functional.cross_entropy(model(train_x[i:i + 64]), train_y[i:i + 64])
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.03)
        if rank == 0:
            # the part of the pool that is looked at doubles every epoch
            part = min(100 * 2 ** epoch, len(pool_x))
            hard = hard_examples(net, pool_x[:part], pool_y[:part])
            print(f"epoch {epoch} loss {loss.item():.4f}, {len(hard)} of {part} are hard", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
