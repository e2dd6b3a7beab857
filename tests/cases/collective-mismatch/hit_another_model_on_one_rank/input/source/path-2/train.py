import torch
from accel import Accelerator
from net import Net


def build(rank):
    net = Net()
    if rank == 2:
        net.adapter = torch.nn.Linear(4, 4)
    return net


accelerator = Accelerator()
accelerator.wait_for_everyone()
net = build(accelerator.process_index)
model, opt = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
for step in range(20):
    accelerator.backward(model(torch.randn(4, 8)).sum())
    opt.step()
