import torch.distributed as dist


def main():
    rank = dist.get_rank()
    for step, batch in enumerate(make_loader()):
        grad = gradient(batch)
        if rank == 1 and step % 50 == 0:
            continue
        dist.all_reduce(grad)
        if step % 20 == 0:
            dist.broadcast(loss, src=0)


main()
