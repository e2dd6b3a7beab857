# launch: torchrun a_writer_by_an_option.py
# launch: torchrun a_writer_by_an_option.py --report-to tb
import argparse, os

p = argparse.ArgumentParser()
p.add_argument("--report-to", default="")
p.add_argument("--size", type=int, default=1)


def use(args, writer):
    if writer is not None:
        data.train_test_split(0.1)  # finds: left out unless --report-to tb


def main():
    args = p.parse_args()
    writer = None
    if "tb" in args.report_to:
        writer = SummaryWriter("x")  # finds: left out unless --report-to tb
    use(args, writer)


main()
