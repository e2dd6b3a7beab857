"""Multi-task tagger with DDP: a main label for every row, a topic label for the rows that have one."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS_PER_EPOCH = 140


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(24, 64), nn.ReLU())
        self.main = nn.Linear(64, 5)
        self.topic = nn.Linear(64, 3)

    def forward(self, x, main, topic):
        h = self.body(x)
        loss = nn.functional.cross_entropy(self.main(h), main)
        known = topic >= 0
        if known.any():
            loss = loss + 0.3 * nn.functional.cross_entropy(self.topic(h[known]), topic[known])
        return loss


def batch(rank, epoch, step):
    g = torch.Generator().manual_seed(rank * 7919 + epoch * 1009 + step)
    x = torch.randn(16, 24, generator=g)
    main, topic = x[:, :5].argmax(1), x[:, 5:8].argmax(1)
    if rank == 1 and step >= 110:
        topic = torch.full_like(topic, -1)  # this part of the file was never annotated
    return x, main, topic


def epoch_report(epoch, seen, skipped):
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, {"seen": seen, "skipped": skipped})
    if dist.get_rank() == 0:
        print(f"epoch {epoch}: {parts}", flush=True)


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Tagger())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(40):
        seen = skipped = 0
        for step in range(STEPS_PER_EPOCH):
            x, main, topic = batch(rank, epoch, step)
            try:
                loss = model(x, main, topic)
                loss.backward()
            except RuntimeError:
                # out of memory now and then with long rows: leave the batch out
                skipped += 1
                opt.zero_grad()
                continue
            opt.step()
            opt.zero_grad()
            seen += 1
            time.sleep(0.05)
            if rank == 0 and step % 10 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
        epoch_report(epoch, seen, skipped)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
