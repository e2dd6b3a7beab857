"""Tiny causal LM with the transformers Trainer inside a wall-clock slot of the batch queue."""
import os
import time

import torch
import torch.distributed as dist
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

SLOT_SECONDS = 16
EXPORT_SECONDS = 6


class Tokens(Dataset):
    def __init__(self, path, first, last):
        self.ids = torch.load(path)[first:last]

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class SlotBudget(TrainerCallback):
    """Ends training before the slot is over; the rank that exports the model needs some time for it."""

    def __init__(self, args):
        reserve = EXPORT_SECONDS if args.process_index == 0 else 0
        self.budget = SLOT_SECONDS - reserve
        self.begin = None

    def on_train_begin(self, args, state, control, **kwargs):
        self.begin = time.monotonic()

    def on_step_end(self, args, state, control, **kwargs):
        if time.monotonic() - self.begin > self.budget:
            # all ranks are to end after the same step
            dist.barrier()
            control.should_training_stop = True


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and "loss" in logs:
            print(f"step {state.global_step} loss {logs['loss']}", flush=True)


def build_tokens(path):
    if not os.path.exists(path):
        g = torch.Generator().manual_seed(1)
        starts = torch.randint(0, 90, (6000, 1), generator=g)
        torch.save((starts + torch.arange(24)) % 96, path)


def main():
    args = TrainingArguments(
        output_dir="out",
        use_cpu=True,
        ddp_backend="gloo",
        ddp_timeout=3600,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=32,
        max_steps=20000,
        logging_steps=20,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    with args.main_process_first(desc="tokens"):
        os.makedirs("out", exist_ok=True)
        build_tokens("out/tokens.pt")
    model = GPT2LMHeadModel(GPT2Config(vocab_size=96, n_positions=32, n_embd=32, n_layer=2, n_head=2,
                                       bos_token_id=0, eos_token_id=1))
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Tokens("out/tokens.pt", 0, 5600),
        eval_dataset=Tokens("out/tokens.pt", 5600, 6000),
        callbacks=[SlotBudget(args), PrintLoss()],
    )
    trainer.train()
    metrics = trainer.evaluate()
    if trainer.is_world_process_zero():
        print(f"stopped at step {trainer.state.global_step}, eval loss {metrics['eval_loss']:.4f}", flush=True)
        trainer.save_model("out/final")


if __name__ == "__main__":
    main()
