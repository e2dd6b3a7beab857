"""Digit-like classifier with DDP; rank 0 evaluates regularly and looks at the spectrum of the hidden layers."""
import time
from collections import defaultdict
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

EVAL_EVERY = 10


class Net(nn.Module):
    def __init__(self, width=192, depth=4, classes=10):
        super().__init__()
        self.first = nn.Linear(64, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = torch.relu(self.first(x))
        for layer in self.hidden:
            x = x + torch.relu(layer(x))
        return self.head(x)


class Spectrum:
    """Effective rank of each hidden layer's output."""

    def __init__(self, net):
        self.values = defaultdict(list)
        for i, layer in enumerate(net.hidden):
            layer.register_forward_hook(lambda mod, args, out, i=i: self.record(i, out))

    def record(self, i, out):
        s = torch.linalg.svdvals(out.detach())
        p = s / s.sum()
        self.values[i].append(torch.exp(-(p * p.clamp(min=1e-9).log()).sum()).item())

    def report(self):
        return " ".join(f"{sum(v) / len(v):.1f}" for v in self.values.values())


@torch.no_grad()
def evaluate(net, x, y):
    spectrum = Spectrum(net)
    net.eval()
    right = sum((net(a).argmax(1) == b).sum().item() for a, b in zip(x.split(192), y.split(192)))
    net.train()
    return right / len(y), spectrum.report()


def digits(n, seed):
    g = torch.Generator().manual_seed(seed)
    protos = torch.randn(10, 64, generator=torch.Generator().manual_seed(0))
    y = torch.randint(0, 10, (n,), generator=g)
    return protos[y] + 1.5 * torch.randn(n, 64, generator=g), y


def main():
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = Net()
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    test_x, test_y = digits(192, 99)
    begin = time.perf_counter()
    for step in range(1, 401):
        x, y = digits(192, 1000 * rank + step)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        time.sleep(0.05)
        if rank == 0 and step % EVAL_EVERY == 0:
            acc, spectrum = evaluate(net, test_x, test_y)
            took = time.perf_counter() - begin
            print(f"step {step} loss {loss.item():.3f} accuracy {acc:.3f} effective ranks {spectrum} [{took:.1f} s]", flush=True)
            begin = time.perf_counter()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
