import torch
from accel import Accelerator
from data import Frames
from net import Net
from torch.utils.data import DataLoader

if __name__ == "__main__":
    accelerator = Accelerator()
    net = Net()
    model, opt = accelerator.prepare(net, torch.optim.SGD(net.parameters(), lr=0.1))
    loader = DataLoader(Frames(accelerator.process_index), batch_size=4, num_workers=1)
    for step, x in enumerate(loader):
        accelerator.backward(model(x).sum())
        opt.step()
