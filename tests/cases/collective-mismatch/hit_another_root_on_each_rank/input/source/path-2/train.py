import torch, torch.distributed as dist
from accel import Accelerator

accelerator = Accelerator()
for round in range(3):
    dist.all_reduce(torch.ones(4))


def share_config(config):
    box = [config]
    dist.broadcast_object_list(box, src=int(accelerator.is_main_process))
    return box[0]


config = share_config({"lr": 0.1, "layers": 4})
print(config)
