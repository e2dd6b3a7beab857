import logging
import time

import torch
from distributed import is_master
from torch.nn.functional import cross_entropy


def train_one_epoch(model, data, loss, epoch, optimizer, args):
    model.train()
    data["train"].set_epoch(epoch)  # set epoch in process safe manner via sampler or shared_epoch
    dataloader = data["train"].dataloader
    end = time.time()
    for i, (images, texts) in enumerate(dataloader):
        optimizer.zero_grad()
        model_out = model(images, texts)
        total_loss = loss(**model_out)
        total_loss.backward()
        optimizer.step()
        if is_master(args) and (i % args.log_every_n_steps == 0 or i + 1 == dataloader.num_batches):
            num_samples = (i + 1) * args.batch_size * args.world_size
            percent_complete = 100.0 * (i + 1) / dataloader.num_batches
            logging.info(
                f"Train Epoch: {epoch} [{num_samples:>4}/{dataloader.num_samples} ({percent_complete:.0f}%)] "
                f"Batch (t): {time.time() - end:.3f} Contrastive_loss: {total_loss.item():#.5g}"
            )
        end = time.time()


def evaluate(model, data, epoch, args):
    metrics = {}
    if not is_master(args):
        return metrics
    model.eval()

    if "val" in data and (args.val_frequency and ((epoch % args.val_frequency) == 0 or epoch == args.epochs)):
        dataloader = data["val"].dataloader
        num_samples = 0
        samples_per_val = dataloader.num_samples
        cumulative_loss = 0.0
        all_image_features, all_text_features = [], []
        with torch.inference_mode():
            for i, (images, texts) in enumerate(dataloader):
                model_out = model(images, texts)
                image_features = model_out["image_features"]
                text_features = model_out["text_features"]
                all_image_features.append(image_features)
                all_text_features.append(text_features)
                logits_per_image = model_out["logit_scale"] * image_features @ text_features.t()
                batch_size = images.shape[0]
                labels = torch.arange(batch_size).long()
                total_loss = (cross_entropy(logits_per_image, labels) + cross_entropy(logits_per_image.t(), labels)) / 2
                cumulative_loss += total_loss * batch_size
                num_samples += batch_size
                if is_master(args) and (i % 10) == 0:
                    logging.info(
                        f"Eval Epoch: {epoch} [{num_samples} / {samples_per_val}]\t"
                        f"Clip Loss: {cumulative_loss / num_samples:.6f}\t"
                    )
            val_metrics = get_clip_metrics(torch.cat(all_image_features), torch.cat(all_text_features))
            metrics.update({**val_metrics, "clip_val_loss": (cumulative_loss / num_samples).item()})

    if not metrics:
        return metrics
    logging.info(f"Eval Epoch: {epoch} " + "\t".join(f"{k}: {round(v, 4):.4f}" for k, v in metrics.items()))
    return metrics


def get_clip_metrics(image_features, text_features):
    ranking = torch.argsort(image_features @ text_features.t(), descending=True)
    preds = torch.where(ranking == torch.arange(len(text_features)).view(-1, 1))[1]
    return {f"image_to_text_R@{k}": (preds < k).float().mean().item() for k in (1, 5, 10)}
