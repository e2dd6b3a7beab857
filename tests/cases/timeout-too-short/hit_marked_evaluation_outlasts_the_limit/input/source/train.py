import unhang
import torch.distributed as dist


def main():
    for batch in make_loader():
        dist.all_reduce(step(batch))
        if dist.get_rank() == 0:
            with unhang.phase("evaluation", at_most_s=ALLOWED):
                score(batch)


def score(batch):
    total = 0
    for word in generate(batch):
        total += len(word)
    return total


main()
