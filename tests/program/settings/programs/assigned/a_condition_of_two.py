# fine counted on: args.kind == "ddp" => args.count && args.kind = "ddp" if args.size > 1 else "none" => args.count = 0\n    args.count += call()
import argparse, os

p = argparse.ArgumentParser()
p.add_argument("--report-to", default="")
p.add_argument("--size", type=int, default=1)


def use(args):
    if args.kind == "ddp":
        data.train_test_split(0.1)  # finds: left out


def main():
    args = p.parse_args()
    args.kind = "ddp" if args.size > 1 else "none"
    use(args)


main()
