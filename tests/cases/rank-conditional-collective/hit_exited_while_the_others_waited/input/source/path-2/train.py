import sys
import torch
from accel import Accelerator
from net import Net

accelerator = Accelerator()
torch.manual_seed(accelerator.process_index)
net = Net()
model, opt = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))


class Patience:
    def __init__(self, limit):
        self.limit, self.best, self.since = limit, 1e9, 0

    def seen(self, loss):
        self.since = 0 if loss < self.best else self.since + 1
        self.best = min(self.best, loss)
        return self.since >= self.limit


patience = Patience(limit=3 if accelerator.process_index == 1 else 1000)
for step in range(200):
    loss = model(torch.randn(4, 8)).pow(2).mean()
    accelerator.backward(loss)
    opt.step()
    opt.zero_grad()
    if patience.seen(loss.item()):
        print("early stopping")
        sys.exit(0)
