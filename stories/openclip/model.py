from torch import nn
from torch.nn.functional import normalize
from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig


class CLIP(nn.Module):
    def __init__(self):
        super().__init__()
        shape = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4}
        text = CLIPTextConfig(vocab_size=100, max_position_embeddings=32, bos_token_id=98, eos_token_id=99, **shape)
        vision = CLIPVisionConfig(image_size=32, patch_size=8, **shape)
        self.clip = CLIPModel(
            CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=128)
        )

    def forward(self, image, text):
        out = self.clip(input_ids=text, pixel_values=image)
        return {
            "image_features": normalize(out.image_embeds, dim=-1),
            "text_features": normalize(out.text_embeds, dim=-1),
            "logit_scale": self.clip.logit_scale.exp(),
        }
