"""Character model with accelerate on a stream of text; sample predictions are shown now and then."""
import random
import time
from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

CHARS = "abcdefghijklmnopqrstuvwxyz ."
SHOW_EVERY = 100


class Lines(IterableDataset):
    """Endless lines of a small grammar, as rows of character numbers."""

    def __init__(self, seed, width=32):
        self.seed, self.width = seed, width

    def __iter__(self):
        rng = random.Random(self.seed)
        words = ["the", "a", "dog", "cat", "sees", "hears", "old", "small", "river", "house"]
        while True:
            text = ""
            while len(text) < self.width:
                text += rng.choice(words) + rng.choice([" ", " ", " ", ". "])
            yield torch.tensor([CHARS.index(c) for c in text[: self.width]])


class CharModel(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.emb = nn.Embedding(len(CHARS), dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, len(CHARS))

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])


@torch.no_grad()
def show_samples(accelerator, model, loader, count=2):
    net = accelerator.unwrap_model(model)
    net.eval()
    rows = next(iter(loader))[:count]
    guess = net(rows[:, :-1]).argmax(-1)
    for want, got in zip(rows[:, 1:].tolist(), guess.tolist()):
        print("   want", "".join(CHARS[c] for c in want), flush=True)
        print("   got ", "".join(CHARS[c] for c in got), flush=True)
    net.train()


def main():
    accelerator = Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(hours=1))])
    torch.manual_seed(0)
    train = DataLoader(Lines(seed=1), batch_size=16)
    held_out = DataLoader(Lines(seed=2), batch_size=16)
    model = CharModel()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model, opt, train, held_out = accelerator.prepare(model, opt, train, held_out)

    for step, ids in enumerate(train, 1):
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        accelerator.backward(loss)
        opt.step()
        opt.zero_grad()
        time.sleep(0.03)
        if step % 20 == 0:
            accelerator.print(f"step {step} loss {loss.item():.3f}", flush=True)
        if step % SHOW_EVERY == 0 and accelerator.is_main_process:
            show_samples(accelerator, model, held_out)
        if step == 500:
            break
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
