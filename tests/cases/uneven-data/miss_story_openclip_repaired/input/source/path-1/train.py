import itertools
import logging
import time

import torch
import torch.distributed as dist
import unhang
from loss import gather_for_metrics
from torch.nn.functional import normalize


def encode(model, images, texts):
    out = model(input_ids=texts, pixel_values=images)
    return normalize(out.image_embeds, dim=-1), normalize(out.text_embeds, dim=-1)


def train_one_epoch(model, batches, num_batches, loss_fn, epoch, optimizer, args):
    model.train()
    end = time.time()
    for i, (images, texts) in enumerate(itertools.islice(batches, num_batches)):
        optimizer.zero_grad()
        image_features, text_features = encode(model, images, texts)
        loss = loss_fn(image_features, text_features, model.module.logit_scale.exp())
        loss.backward()
        optimizer.step()
        if args.rank == 0 and i % args.log_every_n_steps == 0:
            seen = (i + 1) * args.batch_size * args.world_size
            logging.info(
                f"Train Epoch: {epoch} [{seen:>6}/{args.train_num_samples}] Loss: {loss.item():.4f} "
                f"Batch (t): {time.time() - end:.3f}"
            )
        end = time.time()


@torch.no_grad()
def evaluate(model, data, epoch, args):
    model.eval()
    dataloader = data["val"].dataloader
    recall, num_samples = torch.zeros(1), torch.zeros(1)
    for images, texts in unhang.even_batches(dataloader):
        image_features, text_features = encode(model.module, images, texts)
        all_image_features = gather_for_metrics(image_features, args.world_size)
        all_text_features = gather_for_metrics(text_features, args.world_size)
        nearest = (image_features @ all_text_features.T).argmax(dim=1)
        labels = torch.arange(len(nearest)) + args.rank * len(nearest)
        recall += (nearest == labels).sum()
        num_samples += len(nearest)
        assert len(all_image_features) == len(all_text_features)
    dist.all_reduce(recall)
    dist.all_reduce(num_samples)
    if args.rank == 0:
        logging.info(
            f"Eval Epoch: {epoch} [{int(num_samples)} samples] image_to_text_R@1: {(recall / num_samples).item():.4f}"
        )
