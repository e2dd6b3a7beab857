"""A model and a tokenizer of a few kilobytes: short answers when asked to count, long ones when asked to describe."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

SPECIAL = ["<pad>", "<eos>", "<unk>", "<image>"]
ASKED = ["count", "describe", "the", "objects", "in", "image"]
SHORT = ["one", "two", "three", "four"]
LONG = ["a", "red", "cube", "left", "of", "blue", "ball", "and", "behind", "it"]
WORDS = SPECIAL + ASKED + SHORT + LONG
SIZE = 32


def build_tokenizer():
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
    )


def build_model(max_length):
    config = Qwen2Config(
        vocab_size=SIZE,
        hidden_size=SIZE,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=max_length,
        tie_word_embeddings=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
    )
    model = Qwen2ForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(torch.eye(SIZE))
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(0.01)
            layer.mlp.down_proj.weight.mul_(0.01)
        model.lm_head.weight.copy_(next_words().T)
    return model


def next_words():
    """Which word follows which."""
    ids = {word: i for i, word in enumerate(WORDS)}
    follows = torch.full((SIZE, SIZE), -4.0)
    for word in ("count", *SHORT):
        follows[ids[word], [ids[one] for one in SHORT]] = 0.0
        follows[ids[word], ids["<eos>"]] = -0.5
    for word in ("describe", *LONG):
        follows[ids[word], [ids[one] for one in LONG]] = 0.0
    return follows
