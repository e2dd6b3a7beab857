import torch, torch.distributed as dist
import torch_xla.core.xla_model as xm
from tqdm import trange


def info(cards=False):
    rank = dist.get_rank()
    if cards:
        return rank, dist.get_world_size(), torch.cuda.device_count()
    return rank, dist.get_world_size()


class LoRALinear:
    def __init__(self, rank):
        if rank > 0:
            dist.barrier()  # fine


class Trainer:
    def __init__(self, config):
        self.config, self.repo, self.lora = config, make_repo(), config.model.lora.rank > 0
        if self.lora:
            dist.barrier()  # fine

    def push_to_hub(self):
        dist.barrier()
        if dist.get_rank() == 0:
            self.repo.push_to_hub()  # fine

    def save(self, path):
        if dist.get_rank() != 0:
            return
        xm.rendezvous("saved")  # fine


trainer = Trainer(config)
LoRALinear(config.size)
rank, cards = info()
if cards > 1:
    dist.barrier()  # fine
rank, world, cards = info(cards=True)
if cards > 1:
    dist.barrier()  # fine
with trange(first, last, leave=rank == 0) as bar:
    for epoch in bar:
        dist.barrier()  # fine
trainer.push_to_hub()
trainer.save(path)
