"""Supervised fine-tuning with trl; every rank trains on the documents whose shard it owns."""
from pathlib import Path

import torch
import torch.distributed as dist
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import DataLoader, Sampler
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast, TrainerCallback
from trl import SFTConfig, SFTTrainer

MIN_WORDS = 12
EPOCHS = 10


class OwnedDocs(Sampler):
    """Indices of this rank's documents (index modulo world size), short ones left out."""

    def __init__(self, lengths, rank, world):
        self.indices = [i for i in range(rank, len(lengths), world) if lengths[i] >= MIN_WORDS]

    def __iter__(self):
        order = torch.randperm(len(self.indices)).tolist()
        return iter([self.indices[i] for i in order])

    def __len__(self):
        return len(self.indices)


class OwnedDocsTrainer(SFTTrainer):
    def get_train_dataloader(self):
        lengths = [len(ids) for ids in self.train_dataset["input_ids"]]
        sampler = OwnedDocs(lengths, dist.get_rank(), dist.get_world_size())
        return DataLoader(self.train_dataset, batch_size=self.args.per_device_train_batch_size,
                          sampler=sampler, collate_fn=self.data_collator, drop_last=True)


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and "loss" in logs:
            print(f"step {state.global_step} loss {logs['loss']}", flush=True)


class EpochReport(TrainerCallback):
    """How many documents each rank read; goes over a group of its own."""

    def __init__(self):
        self.group = dist.new_group(backend="gloo")

    def on_epoch_end(self, args, state, control, train_dataloader=None, **kwargs):
        docs = [None] * dist.get_world_size()
        dist.all_gather_object(docs, len(train_dataloader.sampler), group=self.group)
        if state.is_world_process_zero:
            print(f"epoch {state.epoch:.2f} done, documents by rank {docs}", flush=True)


def word_tokenizer(words):
    vocab = {w: i for i, w in enumerate(["<pad>", "<eos>", "<unk>"] + words)}
    tok = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tok, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def read_docs(words, n=1600):
    # the dump alternates questions and answers; the questions are mostly short
    g = torch.Generator().manual_seed(7)
    docs = []
    for i in range(n):
        low, high = (14, 28) if i % 2 == 0 else (4, 20)
        count = int(torch.randint(low, high, (1,), generator=g))
        docs.append(" ".join(words[j] for j in torch.randint(0, len(words), (count,), generator=g)))
    return Dataset.from_dict({"text": docs})


def main():
    words = [f"w{i}" for i in range(80)]
    config = SFTConfig(
        output_dir="out",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        ddp_backend="gloo",
        ddp_timeout=3600,
        per_device_train_batch_size=8,
        num_train_epochs=EPOCHS,
        max_length=32,
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    model = GPT2LMHeadModel(GPT2Config(vocab_size=83, n_positions=32, n_embd=32, n_layer=2, n_head=2,
                                       bos_token_id=1, eos_token_id=1))
    trainer = OwnedDocsTrainer(model=model, args=config, train_dataset=read_docs(words),
                               processing_class=word_tokenizer(words), callbacks=[PrintLoss()])
    trainer.add_callback(EpochReport())
    trainer.train()
    trainer.accelerator.wait_for_everyone()
    if trainer.is_world_process_zero():
        Path("out").mkdir(exist_ok=True)
        trainer.save_model("out/final")
        print("saved", flush=True)


if __name__ == "__main__":
    main()
