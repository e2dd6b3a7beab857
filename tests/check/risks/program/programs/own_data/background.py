# fine background safe: fut.done() => step % 2 == 0
import os, time, torch, torch.distributed as dist


class Saver:
    def look(self, blocking):
        if (fut := self._future) is not None:
            if blocking or fut.done():
                fut.result()
                dist.barrier()  # finds: rank-conditional-collective possible stops
                self._future = None

    def save(self):
        self._future = pool.submit(write)


saver = Saver()
for step in range(9):
    saver.look(False)
    dist.all_reduce(x)
    saver.save()
