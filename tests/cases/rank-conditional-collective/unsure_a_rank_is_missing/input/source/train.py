import torch.distributed as dist


def main():
    rank = dist.get_rank()
    for batch in make_loader():
        loss = step(batch)
        if rank == 0:
            metric = score(loss)
            dist.all_reduce(metric)
            print(metric)
        dist.barrier()


main()
