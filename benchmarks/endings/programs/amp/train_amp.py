import torch, torch.nn as nn, torch.distributed as dist
dist.init_process_group("gloo"); r = dist.get_rank(); torch.manual_seed(5)
m = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10)))
o = torch.optim.SGD(m.parameters(), 0.05, momentum=0.9)
sc = torch.amp.GradScaler("cpu", init_scale=2.0 ** 127, growth_interval=40)
skipped = 0
for it in range(1, 61):
    x, y = torch.randn(32, 64) * 40, torch.randint(0, 10, (32,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(m(x), y)
    o.zero_grad(); sc.scale(loss.float()).backward(); sc.unscale_(o)
    gn = nn.utils.clip_grad_norm_(m.parameters(), 1.0)
    old = sc.get_scale(); sc.step(o); sc.update()
    if sc.get_scale() < old:
        skipped += 1
        print(f"Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to {sc.get_scale()}", flush=True)
    if it % 10 == 0 and r == 0:
        print(f" iteration {it:8d}/      60 | loss: {loss.item():.6E} | loss scale: {sc.get_scale():.1f} | grad norm: {gn:.3f} | number of skipped iterations: {skipped:3d} | number of nan iterations:   0 |", flush=True)
if r == 0:
    torch.save(m.module.state_dict(), "amp.pt"); print("successfully saved checkpoint at iteration      60 to amp.pt", flush=True)
dist.barrier(); dist.destroy_process_group()
