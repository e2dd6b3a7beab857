import torch.distributed as dist


def main():
    rank = dist.get_rank()
    n = 1000
    for step in range(5000):
        if step >= n + 40 * (1 - rank):
            break
        dist.all_reduce(forward())
    dist.barrier()


main()
