"""Fine-tunes a tiny sequence classifier with the Trainer; the evaluations go to one shared results file."""
import json
import os

import torch
import torch.distributed as dist
from filelock import FileLock
from torch.utils.data import Dataset
from transformers import (BertConfig, BertForSequenceClassification, Trainer, TrainerCallback,
                          TrainingArguments)


class Reviews(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, 120, (n, 20), generator=g)
        self.labels = (self.ids < 60).sum(1).gt(9).long()

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.labels[i]}


class ResultsFile(TrainerCallback):
    """Keeps out/results.json, which several runs on the same disk may write."""

    def __init__(self, path):
        self.path = path

    def worst_loss(self, loss):
        t = torch.tensor([loss])
        dist.all_reduce(t, op=dist.ReduceOp.MAX)
        return t.item()

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        worst = self.worst_loss(metrics["eval_loss"])
        with FileLock(self.path + ".lock"):
            rows = []
            if os.path.exists(self.path):
                with open(self.path) as f:
                    rows = json.load(f)
            row = {"step": state.global_step, "worst": worst}
            if state.is_world_process_zero:
                rows.append(row)
                with open(self.path, "w") as f:
                    json.dump(rows, f)
                print(f"step {state.global_step} eval loss {row['worst']:.4f}", flush=True)


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and "loss" in logs:
            print(f"step {state.global_step} loss {logs['loss']}", flush=True)


def main():
    args = TrainingArguments(
        output_dir="out",
        use_cpu=True,
        ddp_backend="gloo",
        ddp_timeout=3600,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=16,
        max_steps=300,
        eval_strategy="steps",
        eval_steps=60,
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    config = BertConfig(vocab_size=120, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                        intermediate_size=64, max_position_embeddings=32, num_labels=2)
    trainer = Trainer(
        model=BertForSequenceClassification(config),
        args=args,
        train_dataset=Reviews(4000, 1),
        eval_dataset=Reviews(128, 2),
        callbacks=[ResultsFile("out/results.json"), PrintLoss()],
    )
    trainer.train()


if __name__ == "__main__":
    main()
