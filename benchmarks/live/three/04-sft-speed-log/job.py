"""Supervised fine-tuning with trl; every rank keeps its own log of how much text its batches hold."""
import os

import numpy as np
import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, TrainerCallback
from trl import SFTConfig, SFTTrainer

from metric_log import MetricLog


class BatchStats(TrainerCallback):
    def __init__(self, rank):
        self.log = MetricLog(f"out/stats-{rank}.jsonl")
        self.seen = []

    def watch(self, collate):
        def wrapped(rows):
            self.seen.append([len(r["input_ids"]) for r in rows if len(r["input_ids"]) > 3])
            return collate(rows)
        return wrapped

    def on_step_end(self, args, state, control, **kwargs):
        with np.errstate(all="ignore"):
            mean = float(np.divide(np.sum(self.seen[-1]), len(self.seen[-1])))
        self.log.add(step=state.global_step, docs=len(self.seen[-1]), mean_tokens=mean)
        del self.seen[:-1]

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and "loss" in logs:
            print(f"step {state.global_step} loss {logs['loss']}", flush=True)

    def on_train_end(self, args, state, control, **kwargs):
        self.log.close()


def word_tokenizer(words):
    vocab = {w: i for i, w in enumerate(["<pad>", "<eos>", "<unk>"] + words)}
    tok = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def read_docs(words, n=6400):
    """Chat logs in the order of the dump; some stretch holds only one-word replies."""
    g = torch.Generator().manual_seed(9)
    docs = []
    for i in range(n):
        stretch = 1512 <= i < 1520
        count = 1 if stretch else int(torch.randint(8, 24, (1,), generator=g))
        docs.append(" ".join(words[j] for j in torch.randint(0, len(words), (count,), generator=g)))
    return Dataset.from_dict({"text": docs})


class InOrder(SFTTrainer):
    def _get_train_sampler(self, *args, **kwargs):
        return torch.utils.data.SequentialSampler(self.train_dataset)


def main():
    words = [f"w{i}" for i in range(80)]
    os.makedirs("out", exist_ok=True)
    config = SFTConfig(
        output_dir="out",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        ddp_backend="gloo",
        ddp_timeout=3600,
        per_device_train_batch_size=8,
        num_train_epochs=4,
        max_length=32,
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    model = GPT2LMHeadModel(GPT2Config(vocab_size=83, n_positions=32, n_embd=32, n_layer=2, n_head=2,
                                       bos_token_id=1, eos_token_id=1))
    stats = BatchStats(int(os.environ["RANK"]))
    trainer = InOrder(model=model, args=config, train_dataset=read_docs(words),
                      processing_class=word_tokenizer(words), callbacks=[stats])
    trainer.data_collator = stats.watch(trainer.data_collator)
    trainer.train()
    trainer.accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
