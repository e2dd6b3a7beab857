import datetime, os, sys, time, torch, torch.nn as nn, torch.distributed as dist
dest = sys.argv[1]; secs = int(sys.argv[2])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=secs)); r = dist.get_rank()
m = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)))
o = torch.optim.AdamW(m.parameters(), 1e-3); sched = torch.optim.lr_scheduler.CosineAnnealingLR(o, 30)
t0 = time.time()
for i in range(30):
    x = torch.randn(16, 256); l = nn.functional.mse_loss(m(x), x); o.zero_grad(); l.backward(); o.step(); sched.step()
    if (i + 1) % 10 == 0 and r == 0:
        print(f"{{'loss': {l.item():.4f}, 'learning_rate': {sched.get_last_lr()[0]:.3e}, 'epoch': {(i+1)/10:.1f}}}", flush=True)
print(f"[rank{r}] ***** training finished in {time.time()-t0:.2f}s *****", flush=True)
if r == 0:
    print(f"[rank0] Saving model checkpoint to {dest}", flush=True)
    with open(dest, "wb") as f:
        torch.save({"model": m.module.state_dict(), "optim": o.state_dict()}, f)
    print("[rank0] Model saved.", flush=True)
dist.barrier()
print(f"[rank{r}] bye", flush=True)
dist.destroy_process_group()
