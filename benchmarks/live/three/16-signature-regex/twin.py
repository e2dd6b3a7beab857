"""Topic model of a mailing list with DDP; the posts are cleaned while they are read."""
import random
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from clean_twin import features

TOPICS = {"build": 0, "loader": 1, "license": 2}
WORDS = "the patch fails when we run 2 of the 17 tests, see below: it works for me".split()


class Posts(Dataset):
    def __init__(self, n=6000):
        rng = random.Random(11)
        self.posts = []
        for i in range(n):
            topic = rng.choice(list(TOPICS))
            body = " ".join(rng.choices(WORDS, k=25) + [topic + ":"] * 3)
            name = "Anna Maria Berg" if i % 3 else "J. P. Ito"
            tail = "aGVsbG8gd29ybGQgdGhpcyBpcyBhIGtleQbGljIGtlesdfQq==" if i == 3125 else ""
            self.posts.append((f"> {body[:30]}\n{body}\n{name}\n{tail}", TOPICS[topic]))

    def __len__(self):
        return len(self.posts)

    def __getitem__(self, i):
        post, topic = self.posts[i]
        return torch.tensor(features(post)), topic


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, len(TOPICS))))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    posts = Posts()
    loader = DataLoader(posts, batch_size=16, sampler=DistributedSampler(posts, shuffle=False))
    for epoch in range(2):
        for step, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            time.sleep(0.08)
            if rank == 0 and step % 20 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
