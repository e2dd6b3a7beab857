"""DDP with torch.distributed.checkpoint.async_save in the background."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class SlowShare(dcp.FileSystemWriter):
    """Network share: the second rank's mount answers later than the first one's."""

    def prepare_local_plan(self, plan):
        time.sleep(0.1 + 4.9 * dist.get_rank())
        return super().prepare_local_plan(plan)


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=30))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(30, 60), nn.ReLU(), nn.Linear(60, 30)))
    opt = torch.optim.SGD(model.parameters(), lr=0.01)
    ckpt_group = dist.new_group(backend="gloo", timeout=timedelta(minutes=30))
    pending = None
    for step in range(1, 131):
        x = torch.randn(16, 30)
        loss = (model(x) - x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.05)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step % 50 == 0:
            if pending is not None:
                pending.result()
            pending = dcp.async_save({"model": model.module.state_dict()}, storage_writer=SlowShare(f"out/step-{step}"),
                                     process_group=ckpt_group)
    pending.result()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
