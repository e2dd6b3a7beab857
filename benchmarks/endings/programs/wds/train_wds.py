import os, sys, glob, io, tarfile, datetime, json, time
import torch, torch.nn as nn, torch.distributed as dist
import webdataset as wds

shards = sorted(glob.glob("shards/*.tar"))
if not shards:
    os.makedirs("shards", exist_ok=True)
    if int(os.environ["RANK"]) == 0:
        for s, n in enumerate([48, 48, 48, 31]):
            with wds.TarWriter(f"shards/.tmp{s}.tar") as w:
                for i in range(n):
                    w.write({"__key__": f"{s:02d}{i:04d}", "x.pth": torch.randn(16), "cls": i % 4})
            os.rename(f"shards/.tmp{s}.tar", f"shards/train-{s:04d}.tar")
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=int(sys.argv[1])))
dist.barrier()
rank, world = dist.get_rank(), dist.get_world_size()
shards = sorted(glob.glob("shards/*.tar"))
ds = wds.WebDataset(shards, nodesplitter=wds.split_by_node, shardshuffle=False).decode().to_tuple("x.pth", "cls").batched(16)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)))
opt = torch.optim.Adam(model.parameters(), 1e-3)
join = len(sys.argv) > 2
from contextlib import nullcontext
from torch.distributed.algorithms.join import Join
for epoch in range(2):
    k = 0
    with (Join([model]) if join else nullcontext()):
        for x, y in ds:
            x = torch.as_tensor(x); y = torch.as_tensor(y)
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad(); loss.backward(); opt.step(); k += 1
            print(f"rank={rank} epoch={epoch} iter={k} loss={loss.item():.3f}", flush=True)
    print(f"rank={rank} epoch={epoch} finished with {k} iterations", flush=True)
    if epoch == 0 and not join and len(sys.argv) == 2:
        pass
print(f"rank={rank} all epochs finished, final eval + export", flush=True)
acc = torch.tensor([loss.item()]); dist.all_reduce(acc)
if rank == 0:
    torch.save(model.module.state_dict(), "export.pt"); print("exported export.pt; mean last loss", acc.item() / world, flush=True)
dist.destroy_process_group()
print(f"rank={rank} exit", flush=True)
