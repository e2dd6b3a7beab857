import torch.distributed as dist


def main():
    rank = dist.get_rank()
    if rank != 0:
        dist.barrier()  # waits
    data = tokenizer(texts)
    if rank == 0:
        dist.barrier()  # lets the others in
    train(data)


main()
