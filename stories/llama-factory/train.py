"""Supervised fine-tuning with LoRA: torchrun --nproc-per-node 4 train.py qwen_lora_sft.yaml [KEY=VALUE ...]"""

import sys
from dataclasses import dataclass, field

import torch.distributed as dist
import yaml
from loader import DataArguments, get_dataset, get_tokenizer
from peft import LoraConfig, TaskType, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    DataCollatorForSeq2Seq,
    HfArgumentParser,
    Qwen2Config,
    Trainer,
    TrainingArguments,
    set_seed,
)


@dataclass
class ModelArguments:
    hidden_size: int = 32
    num_hidden_layers: int = 2


@dataclass
class FinetuningArguments:
    lora_rank: int = 8
    lora_alpha: int = 16
    lora_target: list[str] = field(default_factory=lambda: ["q_proj", "v_proj"])


def get_train_args():
    with open(sys.argv[1]) as file:
        config = yaml.safe_load(file)
    for override in sys.argv[2:]:
        key, _, value = override.partition("=")
        config[key] = yaml.safe_load(value)
    parser = HfArgumentParser((ModelArguments, DataArguments, TrainingArguments, FinetuningArguments))
    return parser.parse_dict(config)


def load_model(tokenizer, model_args, finetuning_args):
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=model_args.hidden_size,
        intermediate_size=2 * model_args.hidden_size,
        num_hidden_layers=model_args.num_hidden_layers,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    lora = LoraConfig(
        task_type=TaskType.CAUSAL_LM,
        r=finetuning_args.lora_rank,
        lora_alpha=finetuning_args.lora_alpha,
        target_modules=finetuning_args.lora_target,
    )
    return get_peft_model(AutoModelForCausalLM.from_config(config), lora)


def run_sft(model_args, data_args, training_args, finetuning_args):
    tokenizer = get_tokenizer()
    dataset = get_dataset(data_args, training_args, tokenizer)
    model = load_model(tokenizer, model_args, finetuning_args)
    trainer = Trainer(
        model=model,
        args=training_args,
        data_collator=DataCollatorForSeq2Seq(tokenizer, pad_to_multiple_of=8, label_pad_token_id=-100),
        train_dataset=dataset,
    )
    result = trainer.train()
    trainer.save_model()
    trainer.log_metrics("train", result.metrics)


def main():
    model_args, data_args, training_args, finetuning_args = get_train_args()
    set_seed(training_args.seed)
    run_sft(model_args, data_args, training_args, finetuning_args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
