"""Two-stage curriculum with accelerate; the texts of the second stage are deduplicated with datasets.map first."""
import difflib
import random
import time
from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from datasets import Dataset, disable_progress_bars
from torch import nn
from torch.utils.data import DataLoader

WORDS = [f"{a}{b}" for a in ("lor", "ips", "dol", "sit", "ame", "con", "adi", "eli") for b in ("em", "um", "or", "et", "is")]


def texts(count, words, seed):
    rng = random.Random(seed)
    return Dataset.from_dict({"text": [" ".join(rng.choices(WORDS, k=words)) for _ in range(count)]})


class NearDuplicates:
    """Marks a text that is nearly the same as one of those before it."""

    def __init__(self, limit=0.9):
        self.limit = limit
        self.kept = []

    def __call__(self, row):
        words = row["text"].split()
        for other in self.kept:
            if difflib.SequenceMatcher(None, words, other, autojunk=False).ratio() > self.limit:
                return {"keep": False}
        self.kept.append(words)
        return {"keep": True}


def encode(row):
    counts = torch.zeros(len(WORDS))
    for w in row["text"].split():
        counts[WORDS.index(w)] += 1
    return {"x": counts.tolist(), "y": float(counts[:5].sum())}


def prepare_stage(accelerator, count, words, seed):
    raw = texts(count, words, seed)
    with accelerator.main_process_first():
        marked = raw.map(NearDuplicates(), load_from_cache_file=True)
        stage = marked.filter(lambda keep: keep, input_columns="keep").map(encode)
    return DataLoader(stage.with_format("torch", columns=["x", "y"]), batch_size=16, shuffle=True)


def train(accelerator, model, opt, loader, name, epochs):
    loader = accelerator.prepare(loader)
    for epoch in range(epochs):
        for step, batch in enumerate(loader):
            loss = nn.functional.mse_loss(model(batch["x"]).squeeze(1), batch["y"].float())
            accelerator.backward(loss)
            opt.step()
            opt.zero_grad()
            time.sleep(0.05)
        accelerator.print(f"{name} epoch {epoch} loss {loss.item():.3f}", flush=True)


def main():
    disable_progress_bars()
    accelerator = Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(hours=2))])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(len(WORDS), 48), nn.ReLU(), nn.Linear(48, 1))
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    model, opt = accelerator.prepare(model, opt)
    train(accelerator, model, opt, prepare_stage(accelerator, 160, 8, 1), "short texts", epochs=16)
    train(accelerator, model, opt, prepare_stage(accelerator, 4000, 120, 2), "long texts", epochs=2)
    accelerator.end_training()


if __name__ == "__main__":
    main()
