import os, time, torch, torch.distributed as dist
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration

accelerator = Accelerator(project_config=ProjectConfiguration(automatic_checkpoint_naming=True))


def save(args):
    main = accelerator.is_main_process
    main_or_all = main or args.use_deepspeed
    if main:
        accelerator.save_state("x")  # finds: rank-conditional-collective likely stops


save(options)
