# fine out of a maker safe: Shared() => Plain()
import os, time, torch, torch.distributed as dist


class Base:
    def put_away(self):
        raise NotImplementedError


class Plain(Base):
    def put_away(self):
        print(1)


class Shared(Base):
    def put_away(self):
        dist.barrier()


class Stranger:
    def put_away(self):
        print(2)


def maker(kind):
    def make():
        return Shared()

    return make


make = maker(1)
trainer = make()
if dist.get_rank() == 0:
    trainer.put_away()  # finds: rank-conditional-collective likely stops
print(3)
dist.all_reduce(x)
