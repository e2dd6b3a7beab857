# fine after an error: if not is_master(args):\n        return {} => if is_master(args):\n        if args.broken:\n            return {}
# fine by all ranks:     if not is_master(args):\n        return {}\n =>
# fine by nobody: evaluate(model, val, args) => pass &&     if not is_master(args):\n        return {}\n =>
# fine of no rows: not is_master(args) => not args.rows
# fine once after the loop: evaluate(model, val, args) => pass\n    evaluate(model, val, args)
from train import train_one_epoch, evaluate
from ranks import is_master, start


def main(args):
    start(args)
    for epoch in range(args.epochs):
        train_one_epoch(model, loader)
        evaluate(model, val, args)


main(parse())
