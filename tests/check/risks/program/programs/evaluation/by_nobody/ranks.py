def is_master(args):
    return args.rank == 0


def start(args):
    args.rank = int(os.environ["RANK"])
