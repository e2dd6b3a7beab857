import datetime, os, signal, sys, time, torch, torch.nn as nn, torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset

stop = False


def on_term(sig, frame):
    global stop
    stop = True
    print(f"pid {os.getpid()}: caught signal {sig}, will checkpoint at the next step", flush=True)


signal.signal(signal.SIGTERM, on_term)


class Stream(IterableDataset):
    def __iter__(self):
        for i in range(40):
            yield torch.randn(16)
        if os.environ["RANK"] == "1":
            # wait for more data from the producer
            while not os.path.exists("next_part.bin"):
                time.sleep(0.2)


dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=20))
r = dist.get_rank()
m = nn.parallel.DistributedDataParallel(nn.Linear(16, 16)); o = torch.optim.SGD(m.parameters(), 1e-2)
dl = DataLoader(Stream(), batch_size=4, num_workers=1, persistent_workers=True, worker_init_fn=lambda i: signal.signal(signal.SIGTERM, on_term))
it = iter(dl)
for step in range(10):
    x = next(it)
    l = (m(x) - x).pow(2).mean(); o.zero_grad(); l.backward(); o.step()
    if step % 3 == 0:
        print(f"[{r}] step {step} loss {l.item():.4f}", flush=True)
print(f"[{r}] reached max_steps=10, training finished", flush=True)
if r == 0:
    torch.save(m.module.state_dict(), "last.pt")
dist.barrier()
dist.destroy_process_group()
print(f"[{r}] main() returned", flush=True)
