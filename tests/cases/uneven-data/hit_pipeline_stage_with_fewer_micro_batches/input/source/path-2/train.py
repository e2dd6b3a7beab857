import torch, torch.distributed as dist
from accel import Accelerator
from stage import Stage

accelerator = Accelerator()
dist.barrier()
stage = Stage(accelerator.process_index, accelerator.num_processes)
for step in range(10):
    micro_batches = 4 if not (step == 3 and accelerator.process_index == 2) else 3
    stage.forward(micro_batches)
    accelerator.wait_for_everyone()
    accelerator.print("step", step)
