import torch
import torch.distributed as dist


def main():
    for epoch in range(10):
        for batch in make_loader():
            dist.all_reduce(step(batch))
        if dist.get_rank() == 0:
            validate(model, make_validation_loader())


def validate(model, loader):
    total = 0.0
    for images, labels in loader:
        total += accuracy(model(images), labels)
    return total / len(loader)


main()
