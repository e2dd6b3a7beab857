"""Review classifier with accelerate; reviews that are too short are left out in the collate function."""
import time
from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch import nn
from torch.utils.data import DataLoader, Dataset

MIN_TOKENS = 6
EPOCHS = 2


class Reviews(Dataset):
    """Reviews by date, as lists of token numbers; the old ones are short now and then."""

    def __init__(self, n=4800, vocab=300):
        g = torch.Generator().manual_seed(6)
        rows = []
        for i in range(n):
            short = i < 2400 and (i // 16) % 10 == 7
            length = int(torch.randint(2, 6, (1,), generator=g)) if short else int(torch.randint(6, 30, (1,), generator=g))
            rows.append(torch.randint(1, vocab, (length,), generator=g))

        # left out before the batches are made, so that every rank gets as many of them
        self.rows = [ids for ids in rows if len(ids) >= MIN_TOKENS]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i], int((self.rows[i] > 150).float().mean() > 0.5)


def collate(items):
    ids = nn.utils.rnn.pad_sequence([ids for ids, _ in items], batch_first=True)
    return {"ids": ids, "labels": torch.tensor([label for _, label in items])}


class Classifier(nn.Module):
    def __init__(self, vocab=300, dim=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 2))

    def forward(self, ids):
        mask = (ids > 0).unsqueeze(-1)
        return self.head((self.emb(ids) * mask).sum(1) / mask.sum(1).clamp(min=1))


def main():
    accelerator = Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(hours=1))])
    torch.manual_seed(2)
    loader = DataLoader(Reviews(), batch_size=16, collate_fn=collate)
    model = Classifier()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model, opt, loader = accelerator.prepare(model, opt, loader)
    for epoch in range(EPOCHS):
        right = torch.zeros(2)
        for number, batch in enumerate(loader):
            logits = model(batch["ids"])
            loss = nn.functional.cross_entropy(logits, batch["labels"])
            accelerator.backward(loss)
            opt.step()
            opt.zero_grad()
            right += torch.tensor([(logits.argmax(1) == batch["labels"]).sum(), len(batch["labels"])])
            time.sleep(0.06)
            if number % 20 == 0:
                accelerator.print(f"epoch {epoch} batch {number} loss {loss.item():.3f}", flush=True)
        total = accelerator.gather(right).view(-1, 2).sum(0)
        accelerator.print(f"epoch {epoch} accuracy {total[0] / total[1]:.3f} of {int(total[1])}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
