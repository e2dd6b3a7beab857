import sys, datetime, torch, torch.nn as nn
import lightning as L
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.callbacks import ModelCheckpoint, EarlyStopping
from torch.utils.data import DataLoader, TensorDataset


class LitAuto(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3))
        self.decoder = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 64))

    def step(self, b):
        return nn.functional.mse_loss(self.decoder(self.encoder(b[0])), b[0])

    def training_step(self, b, i):
        l = self.step(b); self.log("train_loss", l, prog_bar=True); return l

    def validation_step(self, b, i):
        self.log("val_loss", self.step(b), sync_dist=True, prog_bar=True)

    def test_step(self, b, i):
        l = self.step(b); self.log("test_loss", l, sync_dist=True); self.log("test_abs_error", l.sqrt(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


if __name__ == "__main__":
    end, secs = sys.argv[1], int(sys.argv[2])
    L.seed_everything(7)
    mk = lambda n: DataLoader(TensorDataset(torch.randn(n, 64)), batch_size=16)
    tr = L.Trainer(accelerator="cpu", devices=2, max_epochs=2, strategy=DDPStrategy(process_group_backend="gloo", timeout=datetime.timedelta(seconds=secs)),
                   callbacks=[ModelCheckpoint(monitor="val_loss", save_top_k=1)], log_every_n_steps=2, default_root_dir="runs")
    m = LitAuto()
    tr.fit(m, mk(256), mk(64))
    if end == "all":
        tr.test(m, mk(64)); print("best:", tr.checkpoint_callback.best_model_score.item() if tr.is_global_zero else "-")
    elif end == "save0":
        if tr.is_global_zero:
            tr.save_checkpoint("runs/final.ckpt"); print("saved runs/final.ckpt")
        print(f"rank {tr.global_rank}: Finished training, syncing before exit", flush=True)
        tr.strategy.barrier("end")
    elif end == "test0":
        if tr.is_global_zero:
            tr.test(m, mk(64))
        else:
            print("Training done on this rank, waiting for the test on rank 0", flush=True)
            tr.strategy.barrier("wait for test")
    print("Done.")
