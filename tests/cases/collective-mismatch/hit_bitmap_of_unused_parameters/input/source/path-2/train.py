import torch
from accel import Accelerator
from net import Net

accelerator = Accelerator()
accelerator.wait_for_everyone()
accelerator.ddp = {"find_unused_parameters": accelerator.process_index == 1}
net = Net()
model, opt = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
for step in range(20):
    accelerator.backward(model(torch.randn(4, 8)).sum())
    opt.step()
    opt.zero_grad()
