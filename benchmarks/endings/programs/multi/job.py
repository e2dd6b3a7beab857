import datetime, os, sys, time, torch, torch.nn as nn, torch.distributed as dist
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60)); r = dist.get_rank()
m = nn.parallel.DistributedDataParallel(nn.Linear(32, 32)); o = torch.optim.SGD(m.parameters(), .05)
for e in range(3):
    for _ in range(20):
        x = torch.randn(8, 32); l = (m(x) - x).pow(2).mean(); o.zero_grad(); l.backward(); o.step()
    print(f"Rank {r} | Epoch {e} | loss {l.item():.5f}", flush=True)
dist.barrier(); dist.destroy_process_group()
print(f"Rank {r} finished training", flush=True)
if len(sys.argv) > 1 and r == int(sys.argv[1]):
    print(f"Rank {r} copying tensorboard events to {sys.argv[2]}", flush=True)
    with open(sys.argv[2], "wb") as f:
        f.write(os.urandom(1 << 20))
    print(f"Rank {r} copy done", flush=True)
