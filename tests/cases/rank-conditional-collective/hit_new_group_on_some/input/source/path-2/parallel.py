import torch.distributed as dist


class Experts:
    def __init__(self, rank, world):
        self.everyone = dist.new_group(list(range(world)), backend="gloo")
