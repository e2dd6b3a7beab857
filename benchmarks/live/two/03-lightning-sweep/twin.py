"""Learning-rate sweep with Lightning: weak trials are pruned by the median of the earlier ones."""
import statistics
from datetime import timedelta

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

RATES = [3e-2, 1e-2, 1e-4, 5e-2, 3e-3]


class TrialPruned(Exception):
    pass


class Study:
    """Median rule: a trial whose loss is over the median of the finished trials at that epoch is pruned."""

    def __init__(self):
        self.curves = []

    def should_prune(self, epoch, loss):
        seen = [c[epoch] for c in self.curves if len(c) > epoch]
        return len(seen) >= 2 and epoch >= 2 and loss > statistics.median(seen) * 1.2


class Pruning(Callback):
    def __init__(self, study):
        self.study = study
        self.curve = []

    def on_validation_end(self, trainer, pl_module):
        if trainer.sanity_checking:
            return
        loss = trainer.callback_metrics["val_loss"].item()
        self.curve.append(loss)
        if trainer.is_global_zero:
            print(f"  epoch {trainer.current_epoch} val {loss:.4f}", flush=True)
        # the loss is the mean over the ranks, so every rank comes to the same answer
        if self.study.should_prune(len(self.curve) - 1, loss):
            raise TrialPruned(f"pruned at epoch {trainer.current_epoch}")


class Net(L.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        return nn.functional.mse_loss(self.net(x), y)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", nn.functional.mse_loss(self.net(x), y), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)


def loaders():
    g = torch.Generator().manual_seed(2)
    x = torch.randn(2560, 12, generator=g)
    y = x[:, :3].sum(1, keepdim=True)
    train, val = TensorDataset(x[:2048], y[:2048]), TensorDataset(x[2048:], y[2048:])
    return DataLoader(train, batch_size=32, shuffle=True), DataLoader(val, batch_size=64)


def run_trial(study, number, lr):
    L.seed_everything(number, verbose=False)
    pruning = Pruning(study)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        max_epochs=6,
        strategy=DDPStrategy(process_group_backend="gloo", timeout=timedelta(hours=1)),
        callbacks=[pruning],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(Net(lr), *loaders())
    study.curves.append(pruning.curve)


def main():
    study = Study()
    for number, lr in enumerate(RATES):
        print(f"trial {number} lr {lr}", flush=True)
        try:
            run_trial(study, number, lr)
        except TrialPruned as e:
            print(f"trial {number}: {e}", flush=True)


if __name__ == "__main__":
    main()
