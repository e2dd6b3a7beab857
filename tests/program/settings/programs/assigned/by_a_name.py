import argparse, os

p = argparse.ArgumentParser()
p.add_argument("--report-to", default="")
p.add_argument("--size", type=int, default=1)


def use(args):
    if args.wandb:
        data.train_test_split(0.1)  # fine


def main():
    args = p.parse_args()
    args.wandb = False
    setattr(args, "wandb", call())
    use(args)


main()
