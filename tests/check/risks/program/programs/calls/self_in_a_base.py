# fine self in a base safe: Shared() => Plain()
import os, time, torch, torch.distributed as dist


class Base:
    def close(self):
        if dist.get_rank() == 0:
            self.finish()  # finds: rank-conditional-collective likely stops
        dist.all_reduce(x)

    def finish(self):
        print(1)


class Plain(Base):
    pass


class Shared(Base):
    def finish(self):
        dist.barrier()


Shared().close()
