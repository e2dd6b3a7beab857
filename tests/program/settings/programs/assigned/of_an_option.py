# fine assigned twice: args.wandb = "wandb" in args.report_to or "all" in args.report_to => args.wandb = False\n    args.wandb = call()
# fine by a name: args.wandb = "wandb" in args.report_to or "all" in args.report_to => args.wandb = False\n    setattr(args, "wandb", call())
# fine computed: "wandb" in args.report_to or "all" in args.report_to => call()
# fine in a loop: args.wandb = "wandb" in args.report_to or "all" in args.report_to => for one in call():\n        args.wandb = False
# fine unpacked: args.wandb = "wandb" in args.report_to or "all" in args.report_to => args.wandb, x = call()
import argparse, os

p = argparse.ArgumentParser()
p.add_argument("--report-to", default="")
p.add_argument("--size", type=int, default=1)


def use(args):
    if args.wandb:
        data.train_test_split(0.1)  # finds: left out


def main():
    args = p.parse_args()
    args.wandb = "wandb" in args.report_to or "all" in args.report_to
    use(args)


main()
