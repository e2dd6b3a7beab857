import argparse
from loaders import by_rows, by_name

p = argparse.ArgumentParser()
p.add_argument("--kind", default="rows")
args = p.parse_args()


def pick(kind):
    if kind == "name":
        return by_name
    return by_rows


pick(args.kind)(data)
pick("name")
