# fine out of a partial safe: Shared() => Plain()
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


from functools import partial


def build(at):
    return Shared()


make = partial(build, 1)
trainer = make()
if dist.get_rank() == 0:
    trainer.put_away()  # finds: rank-conditional-collective likely stops
print(3)
dist.all_reduce(x)
