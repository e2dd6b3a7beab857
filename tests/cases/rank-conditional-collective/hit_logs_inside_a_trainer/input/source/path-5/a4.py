import os, sys, time, datetime
import torch, torch.distributed as dist
import lightning as L
from torch.utils.data import DataLoader, TensorDataset
class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
        self.seen = 0
    def training_step(self, batch, i):
        (x,) = batch
        loss = self.layer(x).mean()
        time.sleep(0.02)
        self.note(loss, x)
        return loss
    def note(self, loss, x):
        self.seen += int((x > 2.9).any())
        if self.seen == 1:
            self.seen = 100
            self.log("outliers", loss, sync_dist=True, on_step=True)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)
def main():
    torch.manual_seed(5)
    x = torch.rand(4000, 8); x[601] = 3.0
    data = DataLoader(TensorDataset(x), batch_size=4)
    t = L.Trainer(accelerator="cpu", devices=2, num_nodes=1, strategy="ddp", max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False)
    t.fit(Net(), data)
main()
