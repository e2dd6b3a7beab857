"""Two phases (pre-training, fine-tuning) of an FSDP2 model; checkpoints lie on the shared disk."""
import os
import shutil
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import fully_shard

SCRATCH = Path(os.environ.get("SCRATCH_DIR", "out/twin"))


def slot_dir():
    return SCRATCH / "shared"


def latest_checkpoint():
    done = sorted(slot_dir().glob("step-*/.metadata"))
    return done[-1].parent if done else None


def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 5))
    for layer in (model[0], model[2], model[4]):
        fully_shard(layer)
    return fully_shard(model)


def train(model, steps, lr, seed, name):
    rank = dist.get_rank()
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    g = torch.Generator().manual_seed(seed + rank)
    for step in range(1, steps + 1):
        x = torch.randn(32, 20, generator=g)
        loss = nn.functional.cross_entropy(model(x), x[:, :5].argmax(1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.02)
        if rank == 0 and step % 20 == 0:
            print(f"{name} step {step} loss {loss.item():.4f}", flush=True)


def pretrain(ckpt_group):
    model = build()
    train(model, 100, 1e-2, 1, "pretrain")
    path = slot_dir() / "step-000100"
    dcp.save(get_model_state_dict(model), checkpoint_id=path, process_group=ckpt_group)
    dist.barrier()


def finetune(ckpt_group):
    model = build()
    path = latest_checkpoint()
    if path is not None:
        state = get_model_state_dict(model)
        dcp.load(state, checkpoint_id=path, process_group=ckpt_group)
        set_model_state_dict(model, state)
        print(f"[rank {dist.get_rank()}] starts from {path}", flush=True)
    train(model, 200, 1e-3, 50, "finetune")


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    ckpt_group = dist.new_group(timeout=timedelta(hours=1))
    if dist.get_rank() == 0:
        shutil.rmtree(slot_dir(), ignore_errors=True)
    dist.barrier()
    pretrain(ckpt_group)
    finetune(ckpt_group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
