"""A thread averages a metric over all ranks every now and then, in the main group."""
import threading, time, torch
import torch.distributed as dist
from base import start, step

class Meter:
    def __init__(self):
        self.values, self.lock = [], threading.Lock()
        threading.Thread(target=self.run, name="meter", daemon=True).start()
    def add(self, value):
        with self.lock:
            self.values.append(value)
    def run(self):
        while True:
            time.sleep(0.5)
            with self.lock:
                count = torch.tensor([float(len(self.values))])
            dist.barrier()

rank, model, opt = start()
meter = Meter()
for i in range(1, 4000):
    loss = step(model, opt)
    meter.add(loss)
    if rank == 0 and i % 20 == 0:
        print(f"step {i} loss {loss:.4f}", flush=True)
    time.sleep(0.001 * rank)
