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


trainer = registry.build(config)
if dist.get_rank() == 0:
    trainer.put_away()  # finds: rank-conditional-collective possible stops
print(3)
dist.all_reduce(x)
