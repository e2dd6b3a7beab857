import torch.distributed as dist


class Trainer:
    def __init__(self):
        self.rank = dist.get_rank()

    def fit(self, loader):
        step = 0
        while True:
            dist.all_reduce(forward(next(loader)))
            step += 1
            if self.rank == 0 and step == 12:
                return
            if step >= 100:
                return


def main():
    trainer = Trainer()
    trainer.fit(make_loader())
    dist.barrier()


main()
