import torch.distributed as dist


def main():
    loader = make_loader()
    for batch in loader:
        loss = step(batch)
        dist.all_reduce(loss)
    dist.barrier()
    save(loss)


main()
