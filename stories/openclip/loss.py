import torch
import torch.distributed.nn
from torch import nn
from torch.nn.functional import cross_entropy


def gather_features(image_features, text_features):
    all_image_features = torch.cat(torch.distributed.nn.all_gather(image_features), dim=0)
    all_text_features = torch.cat(torch.distributed.nn.all_gather(text_features), dim=0)
    return all_image_features, all_text_features


class ClipLoss(nn.Module):
    """As with --local-loss --gather-with-grad: own features against those of all ranks."""

    def __init__(self, rank=0, world_size=1):
        super().__init__()
        self.rank = rank
        self.world_size = world_size

    def forward(self, image_features, text_features, logit_scale):
        all_image_features, all_text_features = image_features, text_features
        if self.world_size > 1:
            all_image_features, all_text_features = gather_features(image_features, text_features)
        logits_per_image = logit_scale * image_features @ all_text_features.T
        logits_per_text = logit_scale * text_features @ all_image_features.T
        labels = torch.arange(logits_per_image.shape[0], device=image_features.device) + len(image_features) * self.rank
        return (cross_entropy(logits_per_image, labels) + cross_entropy(logits_per_text, labels)) / 2
