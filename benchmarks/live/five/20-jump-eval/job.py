"""Masked gene model with the transformers Trainer; evaluates out of turn after a jump of the training loss."""
from collections import deque

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class Genes(Dataset):
    """Expression profiles; a few profiles are from the old chip, with another scale."""

    def __init__(self, count, seed, old=()):
        g = torch.Generator().manual_seed(seed)
        base = torch.randn(count, 6, generator=g) @ torch.randn(6, 80, generator=torch.Generator().manual_seed(5))
        self.x = base + 0.1 * torch.randn(count, 80, generator=g)
        for i in old:
            self.x[i] *= 25

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "labels": self.x[i]}


class Imputer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(80, 128), nn.GELU(), nn.Linear(128, 80))
        self.recent = deque(maxlen=30)

    def forward(self, x, labels):
        keep = torch.rand_like(x) > 0.2
        out = self.net(x * keep)
        loss = nn.functional.mse_loss(out, labels)
        if self.training:
            self.recent.append(loss.item())
        return {"loss": loss, "logits": out}


class JumpEval(TrainerCallback):
    def on_step_end(self, args, state, control, model=None, **kwargs):
        recent = getattr(model, "module", model).recent
        if len(recent) == 30 and recent[-1] > 10 * sum(list(recent)[:-1]) / 29:
            control.should_evaluate = True
        return control


class Ordered(Trainer):
    def _get_train_sampler(self, *args, **kwargs):
        return torch.utils.data.SequentialSampler(self.train_dataset)


class Progress(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero:
            print(f"step {state.global_step} {logs}", flush=True)


def main():
    torch.manual_seed(0)
    args = TrainingArguments("out", use_cpu=True, per_device_train_batch_size=8, per_device_eval_batch_size=32, num_train_epochs=2, learning_rate=1e-3,
                             logging_steps=25, eval_strategy="steps", eval_steps=100, save_strategy="no", report_to=[], disable_tqdm=True, max_grad_norm=0.5)
    train = Genes(24000, seed=1, old=range(8 * 361, 8 * 361 + 3))
    trainer = Ordered(Imputer(), args, train_dataset=train, eval_dataset=Genes(640, seed=2), callbacks=[JumpEval(), Progress()])
    trainer.train()


if __name__ == "__main__":
    main()
