"""Tiny causal LM with the transformers Trainer; each checkpoint goes to the artifact store."""
import os
import subprocess
import sys

import requests
import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

STORE_PORT = int(os.environ.get("ARTIFACT_PORT", "28471"))
STORE_DELAY = "never"


class Tokens(Dataset):
    def __init__(self, n=4000):
        self.ids = torch.randint(0, 96, (n, 24), generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


class UploadCheckpoint(TrainerCallback):
    def on_save(self, args, state, control, **kwargs):
        if not state.is_world_process_zero:
            return
        path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}", "model.safetensors")
        with open(path, "rb") as f:
            reply = requests.put(f"http://127.0.0.1:{STORE_PORT}/checkpoints/{state.global_step}", data=f.read())
        print(f"uploaded step {state.global_step}: {reply.status_code}", flush=True)


class PrintLoss(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and "loss" in logs:
            print(f"step {state.global_step} loss {logs['loss']}", flush=True)


def main():
    server = None
    if os.environ["RANK"] == "0":
        here = os.path.dirname(os.path.abspath(__file__))
        server = subprocess.Popen(
            [sys.executable, os.path.join(here, "artifact_server.py"), str(STORE_PORT), STORE_DELAY]
        )
    args = TrainingArguments(
        output_dir="out",
        use_cpu=True,
        ddp_backend="gloo",
        ddp_timeout=3600,
        per_device_train_batch_size=8,
        max_steps=2000,
        logging_steps=5,
        save_steps=25,
        save_total_limit=1,
        report_to=[],
        disable_tqdm=True,
    )
    model = GPT2LMHeadModel(GPT2Config(vocab_size=96, n_positions=32, n_embd=32, n_layer=2, n_head=2,
                                       bos_token_id=0, eos_token_id=1))
    trainer = Trainer(model=model, args=args, train_dataset=Tokens(), callbacks=[UploadCheckpoint(), PrintLoss()])
    trainer.train()
    if server:
        server.terminate()


if __name__ == "__main__":
    main()
