# fine given by callers safe: Shared() => Stranger()
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


def close(it):
    if dist.get_rank() == 0:
        it.put_away()  # finds: rank-conditional-collective likely stops
    dist.all_reduce(x)


close(Shared())
