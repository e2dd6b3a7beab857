"""Tensor-parallel policy: sample an episode of tokens, then one REINFORCE step on it."""
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

VOCAB, DIM, STOP, LONGEST = 40, 32, 0, 48


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.up = nn.Linear(DIM, 4 * DIM)
        self.down = nn.Linear(4 * DIM, DIM)
        self.out = nn.Linear(DIM, VOCAB)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x.cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]
        return self.out(x + self.down(torch.tanh(self.up(x))))


@torch.no_grad()
def sample(policy, prompt, greedy):
    """Continue a prompt until the policy says stop."""
    tokens = prompt
    while tokens.shape[1] < LONGEST:
        logits = policy(tokens)[:, -1]
        if greedy:
            token = logits.argmax(-1, keepdim=True)
        else:
            token = torch.multinomial(logits.softmax(-1), 1)
        tokens = torch.cat([tokens, token], 1)
        if token.item() == STOP:
            break
    return tokens


def reward(tokens):
    return (tokens % 2 == 0).float().mean() - 0.5


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("tp",))
    lengths_group = dist.new_group(timeout=timedelta(hours=1))
    torch.manual_seed(5)
    policy = Policy()
    parallelize_module(policy, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
    opt = torch.optim.Adam(policy.parameters(), lr=1e-3, foreach=False)
    torch.manual_seed(100 + rank)

    for episode in range(400):
        prompt = torch.randint(1, VOCAB, (1, 6), generator=torch.Generator().manual_seed(episode))
        tokens = sample(policy, prompt, greedy=episode < 60)
        lengths = [None] * world
        dist.all_gather_object(lengths, tokens.shape[1], group=lengths_group)
        logp = policy(tokens[:, :-1]).log_softmax(-1).gather(2, tokens[:, 1:, None])
        loss = -(reward(tokens) * logp).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.05)
        if rank == 0 and episode % 10 == 0:
            print(f"episode {episode} length {lengths[0]} reward {reward(tokens):.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
