import argparse, datetime, os, time
import torch, torch.nn as nn, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

p = argparse.ArgumentParser()
p.add_argument("--docs", type=int, default=57)
p.add_argument("--timeout", type=int, default=1800)
p.add_argument("--out", default="out")
a = p.parse_args()

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=a.timeout))
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
V, T, B = 256, 32, 4
model = DDP(nn.Sequential(nn.Embedding(V, 64), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, V)))
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)

docs = [torch.randint(0, V, (T + 1,)) for _ in range(a.docs)]
mine = docs[rank::world]
batches = [torch.stack(mine[i:i + B]) for i in range(0, len(mine), B)]
print(f"[rank {rank}/{world}] {len(mine)} docs, {len(batches)} batches per epoch", flush=True)

step, t0 = 0, time.time()
for epoch in range(3):
    for b in batches:
        logits = model(b[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, V), b[:, 1:].reshape(-1))
        opt.zero_grad(); loss.backward(); opt.step()
        step += 1
        if step % 4 == 0:
            print(f"[rank {rank}] epoch {epoch} step {step} loss {loss.item():.4f} tok/s {step*B*T/(time.time()-t0):.0f}", flush=True)
print(f"[rank {rank}] training finished after {step} steps ({time.time()-t0:.1f}s)", flush=True)
dist.barrier()
if rank == 0:
    os.makedirs(a.out, exist_ok=True)
    torch.save(model.module.state_dict(), f"{a.out}/final.pt")
    print(f"[rank 0] saved {a.out}/final.pt", flush=True)
dist.barrier()
dist.destroy_process_group()
