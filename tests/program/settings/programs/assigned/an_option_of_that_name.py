# launch: torchrun an_option_of_that_name.py --report-to x
import argparse, os

p = argparse.ArgumentParser()
p.add_argument("--report-to", default="")
p.add_argument("--size", type=int, default=1)


def use(args):
    if args.report_to:
        data.train_test_split(0.1)  # fine


def main():
    args = p.parse_args()
    args.report_to = ""
    use(args)


main()
