# fine family and a stranger: KINDS = {"one": Shared}\ntrainer = KINDS.get("one")() => trainer = registry.build(config)
# also out of a table: KINDS.get("one") => KINDS["one"]
# fine out of a table safe: : Shared => : Plain && KINDS.get("one") => KINDS["one"]
# fine out of a table that is asked safe: : Shared => : Plain
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


KINDS = {"one": Shared}
trainer = KINDS.get("one")()
if dist.get_rank() == 0:
    trainer.put_away()  # finds: rank-conditional-collective likely stops
print(3)
dist.all_reduce(x)
