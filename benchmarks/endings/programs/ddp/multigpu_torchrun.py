import os, argparse
import torch, torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader
from torch.utils.data.distributed import DistributedSampler
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed import init_process_group, destroy_process_group


class MyTrainDataset(Dataset):
    def __init__(self, size):
        self.data = [(torch.rand(20), torch.rand(1)) for _ in range(size)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, i):
        return self.data[i]


class Trainer:
    def __init__(self, model, loader, opt, save_every, path):
        self.gpu = int(os.environ["LOCAL_RANK"]); self.rank = int(os.environ["RANK"])
        self.loader, self.opt, self.save_every, self.path, self.start = loader, opt, save_every, path, 0
        if os.path.exists(path):
            print("Loading snapshot")
            s = torch.load(path); model.load_state_dict(s["MODEL_STATE"]); self.start = s["EPOCHS_RUN"]
            print(f"Resuming training from snapshot at Epoch {self.start}")
        self.model = DDP(model)

    def epoch(self, e):
        b = len(next(iter(self.loader))[0])
        print(f"[GPU{self.rank}] Epoch {e} | Batchsize: {b} | Steps: {len(self.loader)}")
        self.loader.sampler.set_epoch(e)
        for x, y in self.loader:
            self.opt.zero_grad(); F.mse_loss(self.model(x), y).backward(); self.opt.step()

    def train(self, n):
        for e in range(self.start, n):
            self.epoch(e)
            if self.gpu == 0 and e % self.save_every == 0:
                torch.save({"MODEL_STATE": self.model.module.state_dict(), "EPOCHS_RUN": e}, self.path)
                print(f"Epoch {e} | Training snapshot saved at {self.path}")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("total_epochs", type=int); ap.add_argument("save_every", type=int)
    a = ap.parse_args()
    init_process_group("gloo")
    model = torch.nn.Linear(20, 1)
    data = MyTrainDataset(1024)
    Trainer(model, DataLoader(data, 32, sampler=DistributedSampler(data)), torch.optim.SGD(model.parameters(), 1e-3), a.save_every, "snapshot.pt").train(a.total_epochs)
    destroy_process_group()
