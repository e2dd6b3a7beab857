import datetime, os
import torch, torch.distributed as dist


def setup(world_size):
    dist.init_process_group(
        "gloo", init_method="tcp://127.0.0.1:29777", world_size=world_size, rank=int(os.environ["RANK"]),
        timeout=datetime.timedelta(minutes=10),
    )


setup(world_size=3)
dist.all_reduce(torch.ones(1))
