import torch.distributed as dist


def main():
    rows, columns = make_groups()
    for batch in make_loader():
        rank = dist.get_rank()
        first, second = order(rank)
        dist.all_reduce(a, group=rows)
        dist.all_reduce(b, group=columns)


main()
