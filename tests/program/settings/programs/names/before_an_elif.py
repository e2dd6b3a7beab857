import argparse

p = argparse.ArgumentParser()
p.add_argument("--val-split", type=float, default=0.0)
p.add_argument("--name", default=None)
p.add_argument("--flag", action="store_true")
p.add_argument("--mode", default="train", choices=["train", "eval"])
args = p.parse_args()


def main():
    if args.mode == "train":
        pass
    elif x:  # finds: left out
        data.train_test_split(0.1)  # finds: left out
