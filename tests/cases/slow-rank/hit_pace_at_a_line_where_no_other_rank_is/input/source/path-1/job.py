"""Policy network with an audit trail; rank 0 keeps the trail of the last episodes in memory and tidies up after every step."""
import gc
import json
import time
from collections import deque

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

AUDITED = {0: True, 1: False}
STEPS = 700


class Trail:
    def __init__(self, keep=60000):
        self.entries = deque(({"step": 0, "row": i, "values": [0.0, 1.0]} for i in range(keep)), maxlen=keep)

    def add(self, step, obs, actions):
        for row in range(len(obs)):
            entry = {"step": step, "row": row, "values": [float(obs[row, 0]), float(actions[row])]}
            entry["text"] = json.dumps(entry)
            self.entries.append(entry)
        gc.collect()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(64, 384), nn.Tanh(), nn.Linear(384, 384), nn.Tanh(), nn.Linear(384, 8)))
    opt = torch.optim.Adam(model.parameters(), lr=3e-4)
    trail = Trail() if AUDITED[rank] else None
    g = torch.Generator().manual_seed(rank)
    started = time.time()
    for step in range(1, STEPS + 1):
        obs = torch.randn(3072, 64, generator=g)
        logits = model(obs)
        actions = logits.detach().argmax(-1)
        reward = torch.gather(obs[:, :8], 1, actions[:, None]).squeeze(1)
        loss = (nn.functional.cross_entropy(logits, actions, reduction="none") * reward).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if trail:
            trail.add(step, obs[:48], actions[:48])
        if rank == 0 and step % 20 == 0:
            print(f"step {step} reward {reward.mean().item():.3f} {(time.time() - started) / 20:.3f} s/step", flush=True)
            started = time.time()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
