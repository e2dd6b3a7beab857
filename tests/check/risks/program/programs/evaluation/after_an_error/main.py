from train import train_one_epoch, evaluate
from ranks import is_master, start


def main(args):
    start(args)
    for epoch in range(args.epochs):
        train_one_epoch(model, loader)
        evaluate(model, val, args)


main(parse())
