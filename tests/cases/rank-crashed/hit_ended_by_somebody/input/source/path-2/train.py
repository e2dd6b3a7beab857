import time
import torch
from accel import Accelerator
from net import Net

accelerator = Accelerator()
net = Net()
model, opt = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
for step in range(100000):
    accelerator.backward(model(torch.randn(4, 8)).sum())
    opt.step()
    time.sleep(0.03)
    accelerator.print("step", step)
