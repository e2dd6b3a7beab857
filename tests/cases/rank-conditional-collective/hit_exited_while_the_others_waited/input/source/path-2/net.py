import torch


class Net(torch.nn.Module):
    def __init__(self, width=16, classes=3):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
        self.head = torch.nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.body(x))
