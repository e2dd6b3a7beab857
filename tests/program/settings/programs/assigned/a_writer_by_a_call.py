import argparse, os

p = argparse.ArgumentParser()
p.add_argument("--report-to", default="")
p.add_argument("--size", type=int, default=1)


def use(args, writer):
    if writer is not None:
        data.train_test_split(0.1)  # fine


def main():
    args = p.parse_args()
    writer = None
    if call():
        writer = SummaryWriter("x")
    use(args, writer)


main()
