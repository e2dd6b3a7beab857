"""Fine-tune a Llama on dialogs: torchrun --nproc-per-node 2 finetuning.py"""

import datetime
import os
import random

import datasets
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, DistributedSampler
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, default_data_collator

from configs import DatasetConfig, TrainConfig
from custom_dataset import ConcatDataset, get_custom_dataset, make_dialogs
from train_utils import train


def get_tokenizer(dataset_config):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.WordLevelTrainer(special_tokens=["<unk>", "<s>", "</s>"], vocab_size=512)
    texts = (f"[INST] {one['question']} [/INST] {one['answer']}" for one in make_dialogs(dataset_config.num_dialogs))
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )


def get_model(tokenizer):
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=128,
        use_cache=False,
    )
    model = LlamaForCausalLM(config)
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    return model


def main():
    train_config, dataset_config = TrainConfig(), DatasetConfig()

    torch.cuda.manual_seed(train_config.seed)
    torch.manual_seed(train_config.seed)
    random.seed(train_config.seed)

    dist.init_process_group(timeout=datetime.timedelta(seconds=train_config.dist_timeout))
    rank = int(os.environ["RANK"])
    datasets.disable_progress_bars()

    tokenizer = get_tokenizer(dataset_config)
    model = get_model(tokenizer)

    dataset_train = get_custom_dataset(dataset_config, tokenizer, "train")
    if rank == 0:
        print(f"--> Training Set Length = {len(dataset_train)}")
    dataset_train = ConcatDataset(dataset_train, chunk_size=train_config.context_length)

    train_dataloader = DataLoader(
        dataset_train,
        batch_size=train_config.batch_size_training,
        sampler=DistributedSampler(dataset_train, shuffle=True, drop_last=True),
        collate_fn=default_data_collator,
    )
    print(f"--> rank {rank}: Num of Training Set Batches loaded = {len(train_dataloader)}")

    optimizer = torch.optim.AdamW(model.parameters(), lr=train_config.lr)
    train(model, train_dataloader, optimizer, train_config, rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
