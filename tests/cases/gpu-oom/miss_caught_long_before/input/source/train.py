import torch
import torch.distributed as dist


def main():
    for batch in make_loader():
        try:
            loss = step(batch)
        except torch.OutOfMemoryError:
            loss = retry(batch)
        dist.all_reduce(loss)


main()
