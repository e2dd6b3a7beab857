# launch: torchrun functions_of_parsers.py train --lr 1
# launch: torchrun functions_of_parsers.py evaluate
import argparse

import torch.distributed as dist


def train(args):
    if dist.get_rank() == 0:
        dist.barrier()  # finds: rank-conditional-collective likely stops if train


def evaluate(args):
    if dist.get_rank() == 0:
        dist.all_reduce(args)  # finds: rank-conditional-collective likely stops if evaluate


parser = argparse.ArgumentParser()
commands = parser.add_subparsers(dest="command")
one = commands.add_parser("train")
one.add_argument("--lr")
one.set_defaults(func=train)
one = commands.add_parser("evaluate")
one.set_defaults(func=evaluate)
args = parser.parse_args()
args.func(args)
