import time
import torch
from accel import Accelerator
from net import Net


class Store:
    """An object store with a slow uplink."""

    def write(self, data):
        time.sleep(0.5)
        return len(data)

    def flush(self):
        pass


accelerator = Accelerator(timeout=6)
net = Net()
model, opt = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
for step in range(20):
    accelerator.backward(model(torch.randn(4, 8)).sum())
    opt.step()
    accelerator.print("step", step)
    if step == 9 and accelerator.is_main_process:
        torch.save(net.state_dict(), Store())
