"""Three-stage GPipe pipeline; only the last stage reads the labels."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

BATCH, MICRO, WIDTH, CLASSES = 16, 4, 32, 5


class Stage(nn.Module):
    def __init__(self, last):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
        self.head = nn.Linear(WIDTH, CLASSES) if last else nn.Identity()

    def forward(self, x):
        return self.head(x + self.body(x))


def labels_for(step):
    y = torch.randint(0, CLASSES, (BATCH,), generator=torch.Generator().manual_seed(step))
    if step == 47:
        y[3] = -1
    return y


def main():
    dist.init_process_group("gloo", timeout=timedelta(minutes=45))
    rank, world = dist.get_rank(), dist.get_world_size()
    last = world - 1
    torch.manual_seed(rank)
    module = Stage(rank == last)
    stage = PipelineStage(module, rank, world, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=MICRO, loss_fn=nn.functional.cross_entropy)
    opt = torch.optim.SGD(module.parameters(), lr=1e-2)
    mean_loss = torch.zeros(1)
    for step in range(2000):
        if rank == 0:
            x = torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(step))
            schedule.step(x)
        elif rank == last:
            y, losses = labels_for(step), []
            if (y < 0).any():
                print(f"step {step}: broken label, batch skipped", flush=True)
            else:
                schedule.step(target=y, losses=losses)
                mean_loss = torch.stack(losses).mean().detach().reshape(1)
        else:
            schedule.step()
        opt.step()
        opt.zero_grad()
        dist.broadcast(mean_loss, src=last)
        time.sleep(0.04)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {mean_loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
