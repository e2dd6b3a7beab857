import logging, os, sys
import torch, datasets
from datasets import Dataset
from transformers import (LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, TrainerCallback, HfArgumentParser, set_seed)
from dataclasses import dataclass, field
from torch.utils.data import Dataset as TDataset

logger = logging.getLogger(__name__)


@dataclass
class Extra:
    post_eval: str = field(default="all")
    publish_dir: str = field(default="")


def tokens(n, seed):
    g = torch.Generator().manual_seed(seed)
    return Dataset.from_list([{"input_ids": (r := torch.randint(0, 256, (48,), generator=g).tolist()), "labels": r} for _ in range(n)])


def main():
    args, extra = HfArgumentParser((TrainingArguments, Extra)).parse_args_into_dataclasses()
    logging.basicConfig(format="%(asctime)s - %(levelname)s - %(name)s - %(message)s", datefmt="%m/%d/%Y %H:%M:%S", level=logging.INFO, handlers=[logging.StreamHandler(sys.stdout)])
    logger.warning(f"Process rank: {args.local_process_index}, device: {args.device}, n_gpu: {args.n_gpu}, distributed training: {args.parallel_mode.value == 'distributed'}, 16-bits training: {args.fp16}")
    set_seed(args.seed)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=64))
    trainer = Trainer(model=model, args=args, train_dataset=tokens(192, 0), eval_dataset=tokens(32, 1))
    result = trainer.train()
    logger.info("Training finished.")
    if extra.publish_dir and trainer.is_world_process_zero():
        logger.info(f"Copying the final model to {extra.publish_dir}")
        trainer.model.save_pretrained(args.output_dir)
        with open(os.path.join(args.output_dir, "model.safetensors"), "rb") as src, open(os.path.join(extra.publish_dir, "model.safetensors"), "wb") as dst:
            dst.write(src.read())
        logger.info("copied")
    elif not extra.publish_dir:
        trainer.save_model()
    if extra.post_eval == "all" or trainer.is_world_process_zero():
        logger.info("*** Evaluate ***")
        metrics = trainer.evaluate()
        trainer.log_metrics("eval", metrics); trainer.save_metrics("eval", metrics)
    trainer.log_metrics("train", result.metrics)
    trainer.save_state()
    trainer.accelerator.wait_for_everyone()
    logger.info("All done.")


main()
