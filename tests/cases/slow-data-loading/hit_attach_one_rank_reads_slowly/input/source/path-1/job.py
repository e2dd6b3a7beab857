import json, logging, os, sys, time, tempfile
import torch, torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

MODE = sys.argv[1]; SECONDS = float(sys.argv[2]); FACTOR = float(sys.argv[3]) if len(sys.argv) > 3 else 3
torch.set_num_threads(1)

class Texts(Dataset):
    def __init__(self, rank): self.rank = rank
    def __len__(self): return 100000
    def __getitem__(self, i):
        if MODE == "disk" and self.rank == 1:
            time.sleep(0.001 * FACTOR)   # a slow share
        n = 24
        if MODE == "data" and self.rank == 1: n = int(24 * FACTOR)
        if MODE == "vary": n = 12 + (i * 7919 + self.rank * 104729) % 36
        return torch.randn(n, 64)

def collate(items):
    out = nn.utils.rnn.pad_sequence(items, batch_first=True)
    if MODE == "collate" and int(os.environ["RANK"]) == 1:
        for _ in range(int(4 * FACTOR)):
            out = out + torch.stack([x.sort(0).values.sum(0) for x in out for _ in range(3)]).mean() * 0
    return out

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(64, 96, batch_first=True, num_layers=2)
        self.out = nn.Linear(96, 64)
    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h)

def validate(model, rank):
    with torch.no_grad():
        for _ in range(5): model(torch.randn(16, 48, 64))
    t = torch.zeros(1); dist.all_reduce(t)

def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    net = Net(); model = DDP(net); opt = torch.optim.AdamW(model.parameters(), 1e-3)
    loader = DataLoader(Texts(rank), batch_size=8, collate_fn=collate)
    end = time.time() + SECONDS
    step = 0
    kept = []
    began = time.time()
    for x in loader:
        opt.zero_grad()
        y = model(x)
        loss = (y - x).pow(2).mean()
        loss.backward()
        opt.step()
        step += 1
        if MODE == "turns" and step % world == rank: time.sleep(0.03)
        if MODE == "log" and rank == 1:
            with open(os.path.join(tempfile.gettempdir(), "hist.json"), "w") as f:
                kept.append(loss.item()); json.dump(list(range(int(4000 * FACTOR))), f)
        if MODE == "save" and rank == 0 and step % 50 == 0:
            torch.save(net.state_dict(), "/path-1/ck.pt"); time.sleep(0.3)
        if MODE == "spike" and rank == 1 and step % 50 == 0: time.sleep(0.4)
        if MODE == "val" and step % 40 == 0: validate(net, rank)
        if MODE == "clock" and rank == 1: pass
        if step % 20 == 0:
            stop = torch.tensor([float(time.time() > end)]); dist.all_reduce(stop)
            if rank == 0: print(f"step {step} loss {loss.item():.3f} {(time.time()-began)/20*1e3:.0f} ms", flush=True)
            began = time.time()
            if stop.item(): break
    if os.environ.get("DUMP"):
        from torch._C._distributed_c10d import _dump_fr_trace
        os.makedirs(os.environ["DUMP"], exist_ok=True)
        open(os.environ["DUMP"]+f"/rank_{rank}", "wb").write(_dump_fr_trace(includeCollectives=True, includeStackTraces=False, onlyActive=False))
        dist.barrier()
    dist.destroy_process_group()
main()
