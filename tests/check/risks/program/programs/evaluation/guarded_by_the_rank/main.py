# also guarded by a function: args.rank == 0: => is_master(args):
# also guarded by a setting: if args.rank == 0: => args.logs = is_master(args)\n        if args.logs: && likely => possible
from train import train_one_epoch, evaluate
from ranks import is_master, start


def main(args):
    start(args)
    for epoch in range(args.epochs):
        train_one_epoch(model, loader)
        if args.rank == 0:
            evaluate(model, val, args)


main(parse())
