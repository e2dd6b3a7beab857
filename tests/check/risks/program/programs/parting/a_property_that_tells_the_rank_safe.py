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
            print(1)
    if job.many and step > 5:
        break
    dist.barrier()  # fine
