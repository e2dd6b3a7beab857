# also after a return: def main(args):\n    if args.flag: => def main():\n    if not args.flag:\n        return\n    if True:  # finds: left out
# also before an elif: def main(args):\n    if args.flag: => def main():\n    if args.mode == "train":\n        pass\n    elif x:  # finds: left out
# fine changed by the program: args = p.parse_args() => args = p.parse_args()\nargs.flag = True && (args) => ()
# fine names in a circle: def main(args):\n    if args.flag: => def main():\n    a = b\n    b = a\n    if a.flag:
# fine parameter of another class: (args) => (args: Other)
# fine set by name: args = p.parse_args() => args = p.parse_args()\nfor k, v in told().items():\n    setattr(args, k, v) && (args) => ()
import argparse

p = argparse.ArgumentParser()
p.add_argument("--val-split", type=float, default=0.0)
p.add_argument("--name", default=None)
p.add_argument("--flag", action="store_true")
p.add_argument("--mode", default="train", choices=["train", "eval"])
args = p.parse_args()


def main(args):
    if args.flag:
        data.train_test_split(0.1)  # finds: left out
