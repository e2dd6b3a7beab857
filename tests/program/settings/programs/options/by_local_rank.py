# launch: deepspeed by_local_rank.py
# launch: python -m torch.distributed.launch --nproc_per_node 2 by_local_rank.py
# launch: python by_local_rank.py
import argparse

p = argparse.ArgumentParser()
p.add_argument("--local_rank", type=int, default=-1)
p.add_argument("--parts", type=int, default=-1)
args = p.parse_args()


def of_what_the_launcher_adds():
    if args.local_rank != -1:
        data.train_test_split(0.1)  # finds: left out if python by_local_rank.py


def of_what_nobody_adds():
    if args.parts != -1:
        data.train_test_split(0.1)  # finds: left out
