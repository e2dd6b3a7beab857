import argparse, os

p = argparse.ArgumentParser()
p.add_argument("--report-to", default="")
p.add_argument("--size", type=int, default=1)


def use(args):
    if args.log:
        data.train_test_split(0.1)  # finds: left out


def main():
    args = p.parse_args()
    args.wandb = "w" in args.report_to
    args.log = args.wandb
    use(args)


main()
