"""Review polarity with accelerate; reviews with an unusually high loss are listed for the annotators."""
import time

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import nn
from torch.utils.data import DataLoader, Dataset

FLAG_ABOVE = 6.0


class Reviews(Dataset):
    def __init__(self, count=24000, dim=64):
        g = torch.Generator().manual_seed(4)
        self.x = torch.randn(count, dim, generator=g)
        self.y = (self.x[:, :8].sum(1) > 0).long()
        self.x[6320:6324] = self.x[6320:6324].sign() * 4.0
        self.y[6320:6324] = 1 - (self.x[6320:6324, :8].sum(1) > 0).long()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return i, self.x[i], self.y[i]


class Flagged:
    def __init__(self, accelerator):
        self.accelerator = accelerator
        self.rows = []

    def look(self, ids, losses):
        found = [(int(i), round(float(l), 2)) for i, l in zip(ids, losses) if l > FLAG_ABOVE]
        if not found:
            return
        self.rows += gather_object(found)
        self.accelerator.print(f"{len(self.rows)} reviews flagged so far")


def main():
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Dropout(0.1), nn.Linear(96, 2))
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loader = DataLoader(Reviews(), batch_size=16, shuffle=False)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    flagged = Flagged(accelerator)
    step = 0
    for epoch in range(4):
        for ids, x, y in loader:
            losses = nn.functional.cross_entropy(model(x), y, reduction="none")
            accelerator.backward(losses.mean())
            opt.step()
            opt.zero_grad()
            flagged.look(ids, losses.detach())
            step += 1
            time.sleep(0.05)
            if step % 25 == 0:
                accelerator.print(f"epoch {epoch} step {step} loss {losses.mean().item():.3f}")
    accelerator.print(flagged.rows)
    accelerator.end_training()


if __name__ == "__main__":
    main()
