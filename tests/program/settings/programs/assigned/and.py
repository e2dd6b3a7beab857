import argparse, os

p = argparse.ArgumentParser()
p.add_argument("--report-to", default="")
p.add_argument("--size", type=int, default=1)


def use(args):
    if args.save:
        data.train_test_split(0.1)  # finds: left out


def main():
    args = p.parse_args()
    args.save = bool(args.report_to) and os.path.exists("x")
    use(args)


main()
