"""Rewarded sampling: completions are generated, scored with format rules, and the policy is updated."""
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from rewards import score

VOCAB = 24


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 32)
        self.rnn = nn.GRU(32, 48, batch_first=True)
        self.out = nn.Linear(48, VOCAB)

    def forward(self, tokens):
        return self.out(self.rnn(self.embed(tokens))[0])


class Completions:
    """Draws the texts of a batch; stands for the generation server."""

    WORDS = ["area", "sum", "so", "x", "is", "the", "answer", "half"]

    def __init__(self, rank):
        self.rng = random.Random(rank)
        self.rank = rank
        self.count = 0

    def one(self):
        self.count += 1
        words = [self.rng.choice(self.WORDS) for _ in range(self.rng.randint(4, 9))]
        if self.rank == 1 and self.count > 1200:
            words += ["step"] * 45 + ["…"]  # it started to repeat itself
        else:
            words += ["answer:", str(self.rng.randint(0, 99))]
        return " ".join(words)

    def batch(self, rows=8):
        return [self.one() for _ in range(rows)]


def encode(texts):
    ids = [[sum(map(ord, w)) % VOCAB for w in t.split()][:12] for t in texts]
    return torch.tensor([i + [0] * (12 - len(i)) for i in ids])


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(Policy())
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    completions = Completions(rank)
    baseline = 0.0
    for step in range(1, 601):
        texts = completions.batch()
        rewards = torch.tensor([score(t) for t in texts])
        tokens = encode(texts)
        logp = model(tokens[:, :-1]).log_softmax(-1).gather(2, tokens[:, 1:, None]).squeeze(2).mean(1)
        loss = -((rewards - baseline) * logp).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        baseline = 0.9 * baseline + 0.1 * rewards.mean().item()
        time.sleep(0.06)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} reward {rewards.mean():.3f} baseline {baseline:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
