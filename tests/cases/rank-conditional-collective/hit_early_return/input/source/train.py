import torch.distributed as dist


def checkpoint(model):
    if dist.get_rank() != 0:
        return
    state = shards(model)
    dist.all_gather(parts, state)


def main():
    for batch in make_loader():
        loss = step(batch)
        dist.all_reduce(loss)
        checkpoint(model)


main()
