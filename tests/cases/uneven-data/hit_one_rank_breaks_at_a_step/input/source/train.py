import os
import torch.distributed as dist

rank = int(os.environ["RANK"])
for step, batch in enumerate(make_loader()):
    dist.all_reduce(forward(batch))
    if rank == 2:
        report(step)
        if step == args.max_steps:
            break
dist.barrier()
