"""Product recommender with Lightning; checkpoints are packed because the quota of the project is small."""
import lzma
import os
from datetime import timedelta

import lightning as L
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO
from lightning.pytorch.strategies import DDPStrategy
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PRODUCTS = 50000


class PackedCheckpointIO(TorchCheckpointIO):
    def save_checkpoint(self, checkpoint, path, storage_options=None):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with lzma.open(path, "wb", preset=9 | lzma.PRESET_EXTREME) as f:
            torch.save(checkpoint, f)

    def load_checkpoint(self, path, map_location=None, weights_only=None):
        with lzma.open(path, "rb") as f:
            return torch.load(f, map_location=map_location, weights_only=weights_only)


class Recommender(L.LightningModule):
    def __init__(self, dim=96):
        super().__init__()
        self.products = nn.EmbeddingBag(PRODUCTS, dim, mode="mean")
        self.head = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Linear(32, 1))

    def training_step(self, batch, batch_idx):
        basket, spent = batch
        return nn.functional.mse_loss(self.head(self.products(basket)).squeeze(1), spent)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class Progress(Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.is_global_zero and batch_idx % 10 == 0:
            print(f"epoch {trainer.current_epoch} batch {batch_idx} loss {outputs['loss']:.4f}", flush=True)


def baskets(n=12800, size=12):
    g = torch.Generator().manual_seed(3)
    items = torch.randint(0, PRODUCTS, (n, size), generator=g)
    return TensorDataset(items, (items % 97).float().mean(1) / 48)


def main():
    L.seed_everything(1, verbose=False)
    save = ModelCheckpoint(dirpath="out", filename="{step}", every_n_train_steps=60, save_top_k=1)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        max_epochs=4,
        strategy=DDPStrategy(process_group_backend="gloo", timeout=timedelta(hours=1)),
        plugins=[PackedCheckpointIO()],
        callbacks=[Progress(), save],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Recommender(), DataLoader(baskets(), batch_size=64, shuffle=True))


if __name__ == "__main__":
    main()
