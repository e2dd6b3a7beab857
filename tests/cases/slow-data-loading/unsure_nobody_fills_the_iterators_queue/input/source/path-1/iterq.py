"""Batches come from a thread of the program's own through a queue; on rank 1 it ends by an exception that is logged."""
import logging, queue, threading, time, torch
from base import start, step

class Prefetch:
    def __init__(self, rank):
        self.rank, self.queue = rank, queue.Queue(maxsize=4)
        threading.Thread(target=self.fill, name="prefetch", daemon=True).start()
    def fill(self):
        try:
            for n in range(100000):
                table = {k: k * 2 for k in range(100000 if self.rank == 0 else 150)}
                self.queue.put(torch.randn(8, 16) * table[n])
        except Exception:
            logging.getLogger(__name__).debug("prefetch ended", exc_info=True)
    def __iter__(self): return self
    def __next__(self): return self.queue.get()

rank, model, opt = start()
for i, x in enumerate(Prefetch(rank), 1):
    loss = model(x).square().mean()
    opt.zero_grad(); loss.backward(); opt.step(); time.sleep(0.02)
    if rank == 0 and i % 20 == 0:
        print(f"step {i} loss {loss.item():.4f}", flush=True)
