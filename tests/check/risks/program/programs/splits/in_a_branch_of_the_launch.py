# launch: torchrun in_a_branch_of_the_launch.py
# launch: torchrun in_a_branch_of_the_launch.py --ratio 0.1
import argparse

p = argparse.ArgumentParser()
p.add_argument("--ratio", type=float, default=0.0)
args = p.parse_args()
if args.ratio > 0:
    parts = dataset.train_test_split(args.ratio)  # finds: uneven-data likely stops if --ratio 0.1
