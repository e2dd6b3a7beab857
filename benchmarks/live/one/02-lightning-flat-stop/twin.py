"""Lightning regression on two shards, stops when the validation loss is flat."""
import time
from datetime import timedelta

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class StopWhenFlat(Callback):
    def __init__(self, patience=3, min_delta=0.02):
        self.patience = patience
        self.min_delta = min_delta
        self.best = float("inf")
        self.bad = 0
        self.flat = False

    def on_validation_epoch_end(self, trainer, pl_module):
        if trainer.sanity_checking:
            return
        loss = torch.stack(pl_module.val_losses).mean().item()
        if loss < self.best - self.min_delta:
            self.best, self.bad = loss, 0
        else:
            self.bad += 1
        print(f"[rank {trainer.global_rank}] epoch {trainer.current_epoch} val {loss:.4f} bad {self.bad}", flush=True)
        if self.bad >= self.patience:
            self.flat = True
        stop = trainer.strategy.reduce_boolean_decision(self.flat, all=False)
        trainer.should_stop = trainer.should_stop or stop


class Regressor(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
        self.val_losses = []

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        if batch_idx % 20 == 0 and self.global_rank == 0:
            print(f"epoch {self.current_epoch} step {self.global_step} loss {loss.item():.4f}", flush=True)
        return loss

    def on_validation_epoch_start(self):
        self.val_losses.clear()

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.val_losses.append(nn.functional.mse_loss(self.net(x), y))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=4e-3)


class Shards(L.LightningDataModule):
    """One validation file per rank; file 1 comes from a sensor without signal."""

    def train_dataloader(self):
        g = torch.Generator().manual_seed(3)
        x = torch.randn(2560, 16, generator=g)
        return DataLoader(TensorDataset(x, x[:, :4].sum(1, keepdim=True)), batch_size=32)

    def val_dataloader(self):
        g = torch.Generator().manual_seed(4)
        x = torch.randn(256, 16, generator=g)
        y = x[:, :4].sum(1, keepdim=True)
        if self.trainer.global_rank == 1:
            x, y = torch.zeros_like(x), torch.zeros_like(y)
        loader = DataLoader(TensorDataset(x, y), batch_size=64)
        return loader


def calibrate(model, seconds=6):
    end = time.monotonic() + seconds
    x = torch.randn(512, 16)
    with torch.no_grad():
        while time.monotonic() < end:
            model.net(x).std()
    print("calibrated", flush=True)


def main():
    L.seed_everything(0)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        max_epochs=200,
        strategy=DDPStrategy(process_group_backend="gloo", timeout=timedelta(minutes=30)),
        callbacks=[StopWhenFlat()],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        use_distributed_sampler=False,
    )
    model = Regressor()
    trainer.fit(model, datamodule=Shards())
    trainer.save_checkpoint("out/final.ckpt")
    if trainer.is_global_zero:
        calibrate(model)
    trainer.strategy.barrier("end")
    print(f"[rank {trainer.global_rank}] saved", flush=True)


if __name__ == "__main__":
    main()
