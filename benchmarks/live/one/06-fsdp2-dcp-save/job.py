"""FSDP2 training of a small transformer block stack with periodic DCP checkpoints."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        return x + self.ff(self.norm(x))


def save(model, opt, step, group):
    print(f"saving checkpoint at step {step}", flush=True)
    model_sd, opt_sd = get_state_dict(model, opt)
    dcp.save({"model": model_sd, "optim": opt_sd}, checkpoint_id=f"out/step-{step}", process_group=group)
    print(f"checkpoint {step} written", flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=60))
    ckpt_group = dist.new_group(backend="gloo", timeout=timedelta(minutes=60))
    rank = dist.get_rank()
    torch.manual_seed(7)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = nn.Sequential(*[Block() for _ in range(3)], nn.Linear(32, 32))
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, 2001):
        x = torch.randn(16, 32)
        loss = (model(x) - x.flip(1)).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        time.sleep(0.05)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step % 40 == 0 and rank == 0:
            save(model, opt, step, ckpt_group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
