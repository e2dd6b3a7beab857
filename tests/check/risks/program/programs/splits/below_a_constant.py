import torch
import torch.distributed as dist

torch.manual_seed(dist.get_rank())
if True:
    sampler = torch.utils.data.DistributedSampler(data)
else:
    sampler = torch.utils.data.RandomSampler(data)  # fine
