import logging
import os
import random
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from data import get_data
from loss import ClipLoss
from params import parse_args
from torch.nn.parallel import DistributedDataParallel
from train import evaluate, train_one_epoch
from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig


def random_seed(seed=42, rank=0):
    torch.manual_seed(seed + rank)
    np.random.seed(seed + rank)
    random.seed(seed + rank)


def create_model():
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = CLIPTextConfig(vocab_size=100, max_position_embeddings=32, bos_token_id=98, eos_token_id=99, **shape)
    vision = CLIPVisionConfig(image_size=32, patch_size=8, **shape)
    return CLIPModel(CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=32))


def main():
    args = parse_args()
    args.rank, args.world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(
        level=logging.INFO if args.rank == 0 else logging.WARNING,
        format="%(asctime)s | %(levelname)s | %(message)s",
        datefmt="%Y-%m-%d,%H:%M:%S",
    )
    dist.init_process_group(args.dist_backend, timeout=timedelta(seconds=args.dist_timeout))
    logging.info(f"Running in distributed mode. Process (global: {args.rank}), total {args.world_size}.")

    random_seed(42, 0)
    model = DistributedDataParallel(create_model())
    random_seed(42, args.rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.98), eps=1e-6)
    data = get_data(args)
    loss = ClipLoss(args.rank, args.world_size)
    batches = iter(data["train"].dataloader)

    for epoch in range(args.epochs):
        logging.info(f"Start epoch {epoch}")
        train_one_epoch(model, batches, data["train"].num_batches, loss, epoch, optimizer, args)
        evaluate(model, data, epoch, args)
        if args.rank == 0:
            torch.save({"epoch": epoch + 1, "state_dict": model.state_dict()}, "epoch_latest.pt")
            logging.info(f"Saved epoch_latest.pt after epoch {epoch}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
