import unhang
import torch.distributed as dist


def main():
    with unhang.rank_zero_first("tokenisation"):
        data = dataset.map(tokenize)
        dist.barrier()
    for batch in make_loader(data):
        dist.all_reduce(step(batch))
        if dist.get_rank() == 0:
            save(batch)


def save(batch):
    with unhang.together("save"):
        torch.save(batch)


main()
