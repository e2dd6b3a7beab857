import torch
from accel import Accelerator
from net import Net
from parallel import Experts

accelerator = Accelerator()
model = Net()
model, opt = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
for step in range(50):
    if step == 6 and accelerator.process_index < 2:
        experts = Experts(accelerator.process_index, accelerator.num_processes)
    accelerator.backward(model(torch.randn(4, 8)).sum())
    opt.step()
