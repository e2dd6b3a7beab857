from dataclasses import dataclass
from transformers import HfArgumentParser


@dataclass
class Args:
    num_generations: int = 8
    per_device_train_batch_size: int = 1


(args,) = HfArgumentParser((Args,)).parse_args_into_dataclasses()


def check(self, args):
    ranks = self.accelerator.num_processes
    whole = args.per_device_train_batch_size * ranks
    fits = [n for n in range(2, whole + 1) if whole % n == 0]
    if self.num_generations not in fits:
        raise ValueError("no")
