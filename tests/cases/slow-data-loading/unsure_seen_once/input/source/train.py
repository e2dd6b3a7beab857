import torch
import torch.distributed as dist


def main():
    for batch in make_loader():
        dist.all_reduce(step(batch))
        if dist.get_rank() == 0:
            torch.save(model.state_dict(), "model.pt")
        lookup(batch)


def lookup(batch):
    count = 0
    while not ready(batch):
        count += 1
    return count


main()
