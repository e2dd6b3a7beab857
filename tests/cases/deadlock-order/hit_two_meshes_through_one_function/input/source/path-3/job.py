"""2-D mesh (dp x tp) with DTensor statistics of the gradient norm."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial


def total_over(value, mesh):
    return DTensor.from_local(value, mesh, [Partial()], run_check=False).full_tensor()


def global_norm(model, mesh, spike_at):
    local = sum(p.grad.pow(2).sum() for p in model.parameters()).reshape(1)
    if local.item() > spike_at:
        # clip against the replicas first, the shards are scaled afterwards
        local = total_over(local.clamp(max=spike_at), mesh["dp"])
        local = total_over(local, mesh["tp"])
    else:
        local = total_over(local, mesh["tp"])
        local = total_over(local, mesh["dp"])
    return local.sqrt()


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=30))
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(11)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 8))
    opt = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(3000):
        x = torch.randn(8, 16)
        if step == 60 and rank in (1, 2):
            x = x * 40
        loss = (model(x) * (1.0 + x.abs().mean())).pow(2).mean()
        loss.backward()
        norm = global_norm(model, mesh, spike_at=500.0)
        opt.step()
        opt.zero_grad()
        time.sleep(0.05)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f} grad norm {norm.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
