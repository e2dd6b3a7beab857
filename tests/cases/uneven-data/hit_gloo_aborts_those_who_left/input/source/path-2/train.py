import torch
from accel import Accelerator
from net import Net
from torch.utils.data import DataLoader, Subset, TensorDataset


def main():
    accelerator = Accelerator()
    rank, world = accelerator.process_index, accelerator.num_processes
    net = Net()
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    model, opt = accelerator.prepare(net, opt)
    data = TensorDataset(torch.randn(97, 8))
    loader = DataLoader(Subset(data, range(rank, len(data), world)), batch_size=4)
    scheduler = torch.optim.lr_scheduler.StepLR(opt, len(loader))
    for epoch in range(4):
        for (x,) in loader:
            accelerator.backward(model(x).sum())
            opt.step()
            scheduler.step()
        total = accelerator.reduce(torch.ones(1))
        accelerator.print("epoch", epoch, total.item())


main()
