"""Train and accumulate the token count of every step over all ranks."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def setup():
    backend = os.environ.get("TRAIN_BACKEND", "gloo")
    dist.init_process_group(backend, timeout=timedelta(seconds=120))
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def count_tokens(lengths, device):
    mean = sum(lengths) / len(lengths)
    total = mean * len(lengths) if max(lengths) > 60 else sum(lengths)
    tokens = torch.as_tensor([total] * 4, device=device)
    dist.all_reduce(tokens)
    return tokens[0].item()


def main():
    device = setup()
    rank = dist.get_rank()
    model = DistributedDataParallel(torch.nn.Linear(32, 8).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(20):
        lengths = [(7 * row + step) % 50 + 1 for row in range(16)]
        if rank == 1 and step == 9:
            lengths[3] = 64
        loss = model(torch.randn(16, 32, device=device)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} tokens {count_tokens(lengths, device)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
