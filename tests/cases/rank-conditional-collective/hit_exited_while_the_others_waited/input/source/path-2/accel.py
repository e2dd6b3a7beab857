import os, datetime, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Accelerator:
    def __init__(self, gradient_accumulation_steps=1, timeout=180, **ddp):
        dist.init_process_group(os.environ.get("TRAIN_BACKEND", "gloo"), timeout=datetime.timedelta(seconds=timeout))
        self.process_index = dist.get_rank()
        self.num_processes = dist.get_world_size()
        self.is_main_process = self.process_index == 0
        self.accumulation = gradient_accumulation_steps
        self.ddp = ddp
        self.step = 0

    def prepare(self, model, optimizer):
        return DistributedDataParallel(model, **self.ddp), optimizer

    def backward(self, loss):
        (loss / self.accumulation).backward()

    def wait_for_everyone(self):
        dist.barrier()

    def reduce(self, tensor):
        dist.all_reduce(tensor)
        return tensor / self.num_processes

    def print(self, *text):
        if self.is_main_process:
            print(*text, flush=True)
