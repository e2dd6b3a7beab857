import torch
from accel import Accelerator
from net import Net

import torch.distributed as dist


def grad_norm(net):
    total = sum(p.grad.pow(2).sum() for p in net.parameters())
    total = total.reshape(1)
    dist.all_reduce(total)
    return total.sqrt().item()


class Scaler:
    def __init__(self):
        self.scale = 1.0

    def found_inf(self, loss):
        return not torch.isfinite(loss)


accelerator = Accelerator()
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
scaler = Scaler()
model, opt = accelerator.prepare(net, opt)
for step in range(60):
    x = torch.randn(4, 8)
    if step == 14 and accelerator.process_index == 2:
        x = x * float("inf")
    loss = model(x).pow(2).mean()
    accelerator.backward(loss)
    if scaler.found_inf(loss):
        opt.zero_grad()
        continue
    norm = grad_norm(net)
    opt.step()
    opt.zero_grad()
