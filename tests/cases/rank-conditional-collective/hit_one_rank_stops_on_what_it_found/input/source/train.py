import torch.distributed as dist


def main():
    rank, bad = dist.get_rank(), 0
    for step in range(5000):
        dist.all_reduce(forward())
        if worse():
            bad += 1
        if rank == 0 and bad >= 3:
            break
    dist.barrier()


main()
