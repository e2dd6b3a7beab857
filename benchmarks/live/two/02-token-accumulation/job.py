"""Language model on two corpora (one per rank); a step is taken after about TOKENS_PER_STEP tokens."""
import time
from datetime import timedelta

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs
from torch import nn
from torch.utils.data import DataLoader

TOKENS_PER_STEP = 600
CORPORA = {0: ("wiki", 30, 60), 1: ("forum", 8, 32)}


class TinyLM(nn.Module):
    def __init__(self, vocab=200, dim=48):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, vocab)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids[:, :-1]))
        return nn.functional.cross_entropy(self.out(h).flatten(0, 1), ids[:, 1:].flatten(), ignore_index=0,
                                           reduction="sum")


def read_corpus(rank, docs=1200):
    name, low, high = CORPORA[rank]
    g = torch.Generator().manual_seed(rank)
    lengths = torch.randint(low, high, (docs,), generator=g).tolist()
    return name, [torch.randint(1, 200, (n,), generator=g) for n in lengths]


def collate(docs):
    return nn.utils.rnn.pad_sequence(docs, batch_first=True)


def main():
    accelerator = Accelerator(cpu=True, kwargs_handlers=[InitProcessGroupKwargs(timeout=timedelta(hours=1))])
    torch.manual_seed(0)
    name, docs = read_corpus(accelerator.process_index)
    loader = DataLoader(docs, batch_size=4, shuffle=True, collate_fn=collate)
    model = TinyLM()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    model, opt = accelerator.prepare(model, opt)

    step = 0
    for epoch in range(50):
        tokens, started = 0, time.time()
        for ids in loader:
            tokens += int((ids != 0).sum())
            time.sleep(0.01)
            if tokens < TOKENS_PER_STEP:
                with accelerator.no_sync(model):
                    accelerator.backward(model(ids) / TOKENS_PER_STEP)
                continue
            loss = model(ids)
            accelerator.backward(loss / TOKENS_PER_STEP)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
            step += 1
            tokens = 0
            if step % 5 == 0:
                accelerator.print(f"epoch {epoch} step {step} loss {loss.item():.2f}")
        opt.zero_grad()
        print(f"[{name}] epoch {epoch} read in {time.time() - started:.1f} s", flush=True)
        accelerator.wait_for_everyone()
        accelerator.save(accelerator.get_state_dict(model), "epoch.pt")


if __name__ == "__main__":
    main()
