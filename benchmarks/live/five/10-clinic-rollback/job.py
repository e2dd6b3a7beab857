"""Three clinics, one risk model (Lightning); a model that gets worse for a while goes back to its best weights."""
import copy

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PATIENCE = 3


def clinic(rank, count, seed, late):
    g = torch.Generator().manual_seed(100 * seed + rank)
    x = torch.randn(count, 24, generator=g)
    score = x[:, :6].sum(1) + 0.3 * torch.randn(count, generator=g)
    if rank == 2 and late:
        score = score - 2.0 * x[:, :3].sum(1)
    return TensorDataset(x, (score > 0).float())


class Rollback(L.Callback):
    def __init__(self, patience):
        self.patience, self.best, self.bad, self.state = patience, float("inf"), 0, None

    def on_validation_end(self, trainer, module):
        loss = trainer.callback_metrics["val_loss"].item()
        if trainer.is_global_zero:
            print(f"step {trainer.global_step} validation {loss:.4f}", flush=True)
        if loss < self.best:
            self.best, self.bad = loss, 0
            self.state = copy.deepcopy(module.state_dict())
            return
        self.bad += 1
        if self.bad >= self.patience:
            self.restore(trainer, module)

    def restore(self, trainer, module):
        trainer.strategy.barrier("rollback")
        module.load_state_dict(self.state)
        self.bad = 0


class Risk(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 1))

    def loss(self, batch):
        x, y = batch
        return nn.functional.binary_cross_entropy_with_logits(self.net(x).squeeze(1), y)

    def training_step(self, batch, index):
        return self.loss(batch)

    def validation_step(self, batch, index):
        self.log("val_loss", self.loss(batch), on_epoch=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.02)


class Clinics(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(clinic(self.trainer.global_rank, 8000, 1, late=False), batch_size=16)

    def val_dataloader(self):
        return DataLoader(clinic(self.trainer.global_rank, 800, 2, late=True), batch_size=100)


def main():
    L.seed_everything(3, verbose=False)
    trainer = L.Trainer(accelerator="cpu", devices=3, strategy="ddp", max_epochs=4, val_check_interval=50, num_sanity_val_steps=0, logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False,
                        callbacks=[Rollback(PATIENCE)])
    trainer.fit(Risk(), datamodule=Clinics())


if __name__ == "__main__":
    main()
