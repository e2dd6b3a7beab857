# fine a property that tells the rank safe: break => print(1)\n    if job.many and step > 5:\n        break
import os, time, torch, torch.distributed as dist


class Job:
    def __init__(self):
        self.number = int(os.environ["RANK"])

    @property
    def speaks(self):
        return self.number <= 0

    @property
    def many(self):
        return True


job = Job()
for step in range(9):
    if job.speaks:
        if converged():
            break
    dist.barrier()  # finds: rank-conditional-collective likely stops
