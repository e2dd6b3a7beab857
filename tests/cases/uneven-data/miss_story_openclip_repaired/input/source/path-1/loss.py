import torch
import torch.distributed as dist
import torch.distributed.nn
from torch import nn


def gather_features(image_features, text_features, world_size):
    all_image_features = torch.cat(torch.distributed.nn.all_gather(image_features))
    all_text_features = torch.cat(torch.distributed.nn.all_gather(text_features))
    return all_image_features, all_text_features


class ClipLoss(nn.Module):
    def __init__(self, rank, world_size):
        super().__init__()
        self.rank, self.world_size = rank, world_size

    def forward(self, image_features, text_features, logit_scale):
        if self.world_size > 1:
            all_image_features, all_text_features = gather_features(image_features, text_features, self.world_size)
        else:
            all_image_features, all_text_features = image_features, text_features
        logits = logit_scale * all_image_features @ all_text_features.T
        labels = torch.arange(len(logits), device=logits.device)
        return (nn.functional.cross_entropy(logits, labels) + nn.functional.cross_entropy(logits.T, labels)) / 2


@torch.no_grad()
def gather_for_metrics(features, world_size):
    gathered = [torch.zeros_like(features) for _ in range(world_size)]
    dist.all_gather(gathered, features)
    return torch.cat(gathered)
