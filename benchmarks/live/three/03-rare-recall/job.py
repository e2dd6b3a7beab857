"""Fault detector with Lightning on sensor windows; faults are rare and have a metric of their own."""
from datetime import timedelta

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader, Dataset

FAULT = 3


class Windows(Dataset):
    """Windows of one machine, in the order of time; machine 1 breaks down after a while."""

    def __init__(self, machine, n=4800, width=24):
        g = torch.Generator().manual_seed(40 + machine)
        self.x = torch.randn(n, width, generator=g)
        self.y = self.x[:, :3].argmax(1)
        if machine == 1:
            hit = (torch.arange(n) > 2600) & (torch.rand(n, generator=g) < 0.1)
            self.x[hit] += 2.0
            self.y[hit] = FAULT

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class Machines(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(Windows(self.trainer.global_rank), batch_size=16)


class Detector(L.LightningModule):
    def __init__(self, width=24, classes=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, classes))
        self.weight = torch.tensor([1.0, 1.0, 1.0, 8.0])

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        loss = nn.functional.cross_entropy(logits, y, weight=self.weight)
        preds = logits.argmax(1)
        self.log("train/acc", (preds == y).float().mean(), on_step=True, sync_dist=True)
        faults = y == FAULT
        if faults.any():
            recall = (preds[faults] == FAULT).float().mean()
            self.log("train/fault_recall", recall, on_step=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class Progress(Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.is_global_zero and batch_idx % 20 == 0:
            acc = trainer.callback_metrics.get("train/acc", torch.tensor(0.0))
            print(f"epoch {trainer.current_epoch} batch {batch_idx} acc {acc:.3f}", flush=True)


def main():
    L.seed_everything(0, verbose=False)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        max_epochs=2,
        use_distributed_sampler=False,
        strategy=DDPStrategy(process_group_backend="gloo", timeout=timedelta(hours=1)),
        callbacks=[Progress()],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        log_every_n_steps=1,
    )
    trainer.fit(Detector(), Machines())
    if trainer.is_global_zero:
        print("finished", {k: round(v.item(), 3) for k, v in trainer.callback_metrics.items()}, flush=True)


if __name__ == "__main__":
    main()
