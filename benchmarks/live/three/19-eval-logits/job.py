"""Language model with DDP; rank 0 computes the calibration of its predictions on the held-out text."""
import argparse
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB = 8000


class TinyLM(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, VOCAB)

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])


def text(count, length, seed):
    g = torch.Generator().manual_seed(seed)
    return (torch.randint(0, 400, (count, 1), generator=g) + torch.arange(length) * 3) % 1200


def calibration(probs, targets, bins=10):
    confidence, guess = probs.max(-1)
    edges = (confidence * bins).long().clamp(max=bins - 1)
    gaps = []
    for b in range(bins):
        hit = edges == b
        if hit.any():
            gap = (guess[hit] == targets[hit]).float().mean() - confidence[hit].mean()
            gaps.append(gap.abs() * hit.float().mean())
    return torch.stack(gaps).sum().item()


def evaluate(net, ids, batch=32):
    net.eval()
    outputs = []
    for part in ids.split(batch):
        with torch.no_grad():
            logits = net(part[:, :-1])
        outputs.append(logits.softmax(-1))
        time.sleep(0.05)
    net.train()
    return calibration(torch.cat(outputs), ids[:, 1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--eval-every", type=int, default=60)
    parser.add_argument("--held-out", type=int, default=2000)
    args = parser.parse_args()
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = TinyLM()
    model = DDP(net)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    held_out = text(args.held_out, 33, 77)
    for step in range(1, args.steps + 1):
        ids = text(8, 17, 1000 * rank + step)
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.05)
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
        if rank == 0 and step % args.eval_every == 0:
            # the first check is a quick one
            part = held_out[:128] if step == args.eval_every else held_out
            print(f"step {step} calibration error {evaluate(net, part):.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
