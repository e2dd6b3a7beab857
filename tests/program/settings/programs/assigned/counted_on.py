import argparse, os

p = argparse.ArgumentParser()
p.add_argument("--report-to", default="")
p.add_argument("--size", type=int, default=1)


def use(args):
    if args.count:
        data.train_test_split(0.1)  # fine


def main():
    args = p.parse_args()
    args.count = 0
    args.count += call()
    use(args)


main()
