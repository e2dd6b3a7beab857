import torch.distributed as dist


def main():
    for batch in make_loader():
        try:
            loss = step(batch)
        except ValueError as error:
            report(error)
            continue
        dist.all_reduce(loss)


def report(error):
    send(error)


main()
