# fine out of a function that gives a class safe: return Shared\n    return Shared => return Plain\n    return Plain
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


def kind_of(name):
    if name:
        return Shared
    return Shared


trainer = kind_of(1)()
if dist.get_rank() == 0:
    trainer.put_away()  # finds: rank-conditional-collective likely stops
print(3)
dist.all_reduce(x)
