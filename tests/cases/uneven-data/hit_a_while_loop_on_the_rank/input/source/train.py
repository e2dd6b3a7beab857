import torch.distributed as dist


def main():
    rank, step = dist.get_rank(), 0
    while step < 1000 + 40 * rank:
        dist.all_reduce(forward())
        step += 1


main()
