"""Text classifier with accelerate; the progress bar counts the optimizer steps."""
import time
from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm.auto import tqdm

EVAL_EVERY = 40


class BagOfWords(nn.Module):
    def __init__(self, vocab=500, dim=32):
        super().__init__()
        self.emb = nn.EmbeddingBag(vocab, dim)
        self.head = nn.Linear(dim, 4)

    def forward(self, ids):
        return self.head(self.emb(ids))


def evaluate(accelerator, model, loader):
    model.eval()
    right = seen = 0
    for ids, labels in loader:
        with torch.no_grad():
            preds = model(ids).argmax(-1)
        preds, labels = accelerator.gather_for_metrics((preds, labels))
        right += (preds == labels).sum().item()
        seen += labels.numel()
    model.train()
    return right / seen


def main():
    accelerator = Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(minutes=40))])
    torch.manual_seed(5)
    ids = torch.randint(0, 500, (2000, 20))
    labels = (ids < 250).sum(1).sub(7).clamp(0, 3)
    train = DataLoader(TensorDataset(ids[:1600], labels[:1600]), batch_size=16, shuffle=True)
    test = DataLoader(TensorDataset(ids[1600:], labels[1600:]), batch_size=50)
    model = BagOfWords()
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    model, opt, train, test = accelerator.prepare(model, opt, train, test)

    progress = tqdm(total=3 * len(train), disable=not accelerator.is_main_process, mininterval=1.0)
    done = 0
    for epoch in range(3):
        for ids, labels in train:
            loss = nn.functional.cross_entropy(model(ids), labels)
            accelerator.backward(loss)
            opt.step()
            opt.zero_grad()
            progress.update(1)
            done += 1
            time.sleep(0.05)
            if done % EVAL_EVERY == 0:
                acc = evaluate(accelerator, model, test)
                accelerator.print(f"step {done} accuracy {acc:.3f}")
            elif done % 10 == 0:
                accelerator.print(f"step {done} loss {loss.item():.3f}")
    if accelerator.is_main_process:
        print("packing the model", flush=True)
        time.sleep(6)
    accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    main()
