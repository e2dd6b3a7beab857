"""A regression with the transformers Trainer; a callback asks for an evaluation where the loss of its rank jumps."""
import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments


class Rows(Dataset):
    def __init__(self, count, seed):
        g = torch.Generator().manual_seed(seed)
        self.x = torch.randn(count, 12, generator=g)
        self.y = self.x.sum(1, keepdim=True)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"x": self.x[i], "labels": self.y[i]}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(12, 1)
        self.last = 0.0

    def forward(self, x, labels):
        out = self.net(x)
        loss = nn.functional.mse_loss(out, labels)
        self.last = loss.item()
        return {"loss": loss, "logits": out}


class OnSpike(TrainerCallback):
    def __init__(self):
        self.mean = None

    def on_step_end(self, args, state, control, model=None, **kwargs):
        last = getattr(model, "module", model).last
        if self.mean is not None and last > 1.8 * self.mean:
            control.should_evaluate = True
        self.mean = last if self.mean is None else 0.9 * self.mean + 0.1 * last
        return control


def main():
    torch.manual_seed(0)
    args = TrainingArguments("out", use_cpu=True, per_device_train_batch_size=8, per_device_eval_batch_size=16,
                             num_train_epochs=50, logging_steps=20, save_strategy="no", report_to=[], disable_tqdm=True)
    Trainer(Model(), args, train_dataset=Rows(2000, 1), eval_dataset=Rows(64, 2), callbacks=[OnSpike()]).train()


if __name__ == "__main__":
    main()
