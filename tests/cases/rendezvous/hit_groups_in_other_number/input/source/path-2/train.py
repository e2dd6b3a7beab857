import torch
from accel import Accelerator
from net import Net
from parallel import Topology

accelerator = Accelerator()
model = Net()
model, opt = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
topology = Topology()
for step in range(50):
    loss = model(torch.randn(4, 8)).sum()
    accelerator.backward(loss)
    opt.step()
    accelerator.print("step", step)
