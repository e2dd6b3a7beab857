"""Next-word model; loader workers index the corpus when they are asked for the first time."""
import random
import time
from collections import defaultdict

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset


class Contexts(Dataset):
    """Positions of the words that follow a frequent pair of words."""

    def __init__(self, seed, tokens=3_000_000):
        self.seed, self.tokens, self.index = seed, tokens, None

    def build(self):
        rng = random.Random(self.seed)
        text = [min(int(rng.expovariate(0.02)), 499) for _ in range(self.tokens)]
        pairs = defaultdict(list)
        for i in range(len(text) - 2):
            pairs[text[i] * 500 + text[i + 1]].append(i)
        self.text = text
        self.index = [i for places in pairs.values() if len(places) > 20 for i in places]

    def __len__(self):
        return 40000

    def __getitem__(self, i):
        if self.index is None:
            self.build()
        at = self.index[i % len(self.index)]
        return torch.tensor(self.text[at:at + 2]), self.text[at + 2]


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    loader = DataLoader(Contexts(rank), batch_size=64, num_workers=2)
    model = DDP(nn.Sequential(nn.Embedding(500, 64), nn.Flatten(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 500)))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    started = time.time()
    if rank == 0:
        print("epoch 0", flush=True)
    for step, (x, y) in enumerate(loader, 1):
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.05)
        if rank == 0 and step % 25 == 0:
            print(f"step {step} loss {loss.item():.3f} ({time.time() - started:.1f}s)", flush=True)
        if step == 400:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
