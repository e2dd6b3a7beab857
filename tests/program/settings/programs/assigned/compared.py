# launch: torchrun compared.py --size 1
import argparse, os

p = argparse.ArgumentParser()
p.add_argument("--report-to", default="")
p.add_argument("--size", type=int, default=1)


def use(args):
    if args.distributed:
        data.train_test_split(0.1)  # finds: left out


def main():
    args = p.parse_args()
    args.distributed = args.size > 1
    use(args)


main()
