import os, time, torch, torch.distributed as dist


def start():
    rank = dist.get_rank()
    return dict(rank=rank, several=os.cpu_count() > 1)


got = start()
args.rank, args.several = got["rank"], got["several"]
if args.several:
    dist.barrier()  # fine
