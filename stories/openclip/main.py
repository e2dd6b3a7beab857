import logging
import random
import sys

import numpy as np
import torch
from data import get_data
from distributed import init_distributed_device, is_master
from loss import ClipLoss
from model import CLIP
from params import parse_args
from train import evaluate, train_one_epoch


def random_seed(seed=42, rank=0):
    torch.manual_seed(seed + rank)
    np.random.seed(seed + rank)
    random.seed(seed + rank)


def main(args):
    args = parse_args(args)
    init_distributed_device(args)
    logging.basicConfig(
        level=logging.INFO if is_master(args) else logging.WARNING,
        format="%(asctime)s | %(levelname)s | %(message)s",
        datefmt="%Y-%m-%d,%H:%M:%S",
    )
    logging.info(f"Running in distributed mode. Process (global: {args.rank}), total {args.world_size}.")

    random_seed(42, 0)
    original_model = model = CLIP()
    random_seed(42, args.rank)
    if args.distributed:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98), eps=1e-6)
    data = get_data(args)
    loss = ClipLoss(args.rank, args.world_size)

    for epoch in range(args.epochs):
        if is_master(args):
            logging.info(f"Start epoch {epoch}")

        train_one_epoch(model, data, loss, epoch, optimizer, args)
        completed_epoch = epoch + 1

        if "val" in data:
            evaluate(model, data, completed_epoch, args)

        if is_master(args):
            torch.save({"epoch": completed_epoch, "state_dict": original_model.state_dict()}, "epoch_latest.pt")
            logging.info(f"Saved epoch_latest.pt after epoch {epoch}")


if __name__ == "__main__":
    main(sys.argv[1:])
