"""Graph model; the ranks take turns in refreshing the common negative samples."""
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

NODES, STEPS = 3000, 1400


def refresh(emb, owner):
    """The owner looks for near nodes, everybody gets them."""
    near = torch.empty(NODES, dtype=torch.long)
    if dist.get_rank() == owner:
        with torch.no_grad():
            for part in torch.arange(NODES).split(250):
                distance = torch.cdist(emb[part], emb)
                near[part] = distance.topk(20, largest=False).indices[:, 11]
    dist.broadcast(near, src=owner)
    return near


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = DDP(nn.Embedding(NODES, 64))
    opt = torch.optim.SGD(model.parameters(), lr=5.0)
    g = torch.Generator().manual_seed(rank)
    negatives = torch.randperm(NODES)
    started = time.time()
    for step in range(1, STEPS + 1):
        a = torch.randint(0, NODES, (512,), generator=g)
        b = (a + torch.randint(1, 6, (512,), generator=g)) % NODES
        ea, eb, en = model(torch.stack([a, b, negatives[a]]))
        loss = nn.functional.softplus((ea * en).sum(1) - (ea * eb).sum(1)).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.02)
        if step % 2 == 0:
            negatives = refresh(model.module.weight, owner=step // 2 % world)
        if rank == 0 and step % 30 == 0:
            print(f"step {step} loss {loss.item():.4f} {(time.time() - started) / 30:.3f} s/step", flush=True)
            started = time.time()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
