# also a name of both: main: => main_or_all: && likely => possible
# also a setting may send all: main: => main or args.use_deepspeed: && likely => possible
# fine as in diffusers: from torch.distributed.fsdp import fully_shard\n => && fully_shard(net)\n =>
import os, time, torch, torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration
from torch.distributed.fsdp import fully_shard

fully_shard(net)
accelerator = Accelerator(project_config=ProjectConfiguration(automatic_checkpoint_naming=False))


def save(args):
    main = accelerator.is_main_process
    main_or_all = main or args.use_deepspeed
    if main:
        accelerator.save_state("x")  # finds: rank-conditional-collective likely stops


save(options)
