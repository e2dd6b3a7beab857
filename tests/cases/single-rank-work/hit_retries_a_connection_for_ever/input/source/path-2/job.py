"""Distillation: the student learns from the logits of a teacher service that runs beside rank 0."""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import teacher_client as teacher


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        if os.path.exists(teacher.PORT_FILE):
            os.remove(teacher.PORT_FILE)
        teacher.serve(requests=600)
    dist.barrier()
    torch.manual_seed(0)
    student = DDP(nn.Sequential(nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 8)))
    opt = torch.optim.Adam(student.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(rank)
    started = time.time()
    for step in range(1, 4001):
        x = torch.randn(16, 32, generator=g)
        wanted = torch.tensor(teacher.logits(x.tolist()))
        loss = nn.functional.kl_div(student(x).log_softmax(-1), wanted.log_softmax(-1), log_target=True, reduction="batchmean")
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.03)
        if rank == 0 and step % 25 == 0:
            print(f"step {step} loss {loss.item():.4f} {time.time() - started:.0f}s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
