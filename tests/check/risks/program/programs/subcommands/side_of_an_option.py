# launch: torchrun side_of_an_option.py evaluate
# launch: torchrun side_of_an_option.py train
import argparse

import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("mode", choices=["train", "evaluate"])
args = parser.parse_args()
if args.mode == "train" and dist.get_rank() == 0:
    dist.barrier()  # finds: rank-conditional-collective likely stops if train
