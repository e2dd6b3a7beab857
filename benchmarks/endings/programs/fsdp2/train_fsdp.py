import datetime, os, sys, time
import torch, torch.nn as nn, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.checkpoint.state_dict import get_model_state_dict, StateDictOptions
import torch.distributed.checkpoint as dcp

mode = sys.argv[1] if len(sys.argv) > 1 else "dcp"
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=15 if mode == "full" else 900))
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(0)
layers = [nn.TransformerEncoderLayer(32, 2, 64, batch_first=True) for _ in range(2)]
model = nn.Sequential(nn.Embedding(100, 32), *layers, nn.Linear(32, 100))
for m in model:
    if isinstance(m, nn.TransformerEncoderLayer):
        fully_shard(m, mesh=mesh)
fully_shard(model, mesh=mesh)
n = sum(p.numel() for p in model.parameters())
if rank == 0:
    print(f"--> model has {n/1e6:.3f} Million params", flush=True)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(2):
    t = time.time(); tot = 0.
    for i in range(6):
        x = torch.randint(0, 100, (4, 16))
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
        loss.backward(); opt.step(); opt.zero_grad(); tot += loss.item()
    avg = torch.tensor(tot / 6); dist.all_reduce(avg); avg /= dist.get_world_size()
    if rank == 0:
        print(f"Train Epoch: \t{epoch}, Loss: \t{avg:.4f}, epoch time {time.time()-t:.2f}s", flush=True)
print(f"rank {rank}: training finished, final save", flush=True)
if mode.startswith("full"):
    if rank == 0:
        sd = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        torch.save(sd, "model_full.pt")
        print("saved model_full.pt", flush=True)
else:
    dcp.save({"model": model.state_dict()}, checkpoint_id="ckpt")
    if rank == 0:
        print("saved checkpoint to ckpt/", sorted(os.listdir("ckpt")), flush=True)
dist.barrier()
dist.destroy_process_group()
print(f"rank {rank}: process group destroyed, bye", flush=True)
