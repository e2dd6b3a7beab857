"""Character model with windowed statistics; rank 0 also keeps a gallery of predictions for the report."""
import json
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Window:
    """Losses of some steps; its summary is written when nobody needs it any more, after all ranks have theirs on disk."""

    def __init__(self, name, detailed):
        self.name, self.losses, self.norms = name, [], []
        self.observe = self._observe_all if detailed else self._observe_loss

    def _observe_loss(self, loss, model):
        self.losses.append(loss)

    def _observe_all(self, loss, model):
        self.losses.append(loss)
        self.norms.append(sum(p.grad.square().sum() for p in model.parameters()).sqrt().item())

    def summary(self):
        out = {"window": self.name, "loss": sum(self.losses) / len(self.losses)}
        if self.norms:
            out["norm"] = max(self.norms)
        return out

    def __del__(self):
        with open(f"out/{self.name}.{dist.get_rank()}.json", "w") as f:
            json.dump(self.summary(), f)
        dist.barrier()


class Model(nn.Module):
    def __init__(self, vocab=64, dim=48):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    os.makedirs("out", exist_ok=True)
    torch.manual_seed(0)
    model = DDP(Model())
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    g = torch.Generator().manual_seed(rank)
    gallery = []
    window = Window("steps-0", detailed=True)
    for step in range(1, 3001):
        first = torch.randint(0, 64, (16, 1), generator=g)
        ids = (first + torch.arange(25) * (1 + first % 3)) % 64
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        window.observe(loss.item(), model)
        time.sleep(0.04)
        if rank == 0:
            guess = logits[:, -1].argmax(-1)
            for row in range(len(ids)):
                gallery.append({"step": step, "text": ids[row].tolist(), "guess": [int(guess[row]), int(ids[row, -1])]})
            gallery = gallery[-20000:]
            if step % 20 == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
        if step % 60 == 0:
            window = Window(f"steps-{step}", detailed=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
