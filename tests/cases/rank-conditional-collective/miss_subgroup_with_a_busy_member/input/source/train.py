import torch.distributed as dist


def main():
    rank = dist.get_rank()
    pair = dist.new_group([0, 1])
    for batch in make_loader():
        loss = step(batch)
        if rank in (0, 1):
            report = write_report(batch)
            dist.all_reduce(loss, group=pair)
        dist.all_reduce(loss)


def write_report(batch):
    return [slow(item) for item in batch]


main()
