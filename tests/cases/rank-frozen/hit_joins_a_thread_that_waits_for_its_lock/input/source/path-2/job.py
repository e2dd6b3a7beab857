"""Metrics of each rank are written by a thread."""
import os
import queue
import threading
import time

import torch
import torch.distributed as dist


class Metrics:
    def __init__(self, path):
        self.path, self.rows, self.lock = path, queue.Queue(), threading.Lock()
        self.writer = threading.Thread(target=self.write, daemon=True)
        self.writer.start()

    def write(self):
        with open(self.path, "a") as file:
            while (row := self.rows.get()) is not None:
                self.save(file, row)

    def save(self, file, row):
        with self.lock:
            self.put(file, row)

    def put(self, file, row):
        file.write(f"{row}\n")
        if "SLOW" in os.environ and row == 60:
            time.sleep(40)

    def close(self, late):
        if not late:
            self.rows.put(None)
            self.writer.join()
            return
        with self.lock:
            self.rows.put("totals")
            self.rows.put(None)
            self.writer.join()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    metrics = Metrics(f"rank{rank}.txt")
    weights = torch.zeros(50)
    for step in range(1, 400):
        weights += torch.rand(50, generator=torch.Generator().manual_seed(rank + step))
        dist.all_reduce(weights)
        time.sleep(0.05)
        metrics.rows.put(step)
        if rank == 0 and step % 20 == 0:
            print(f"step {step} norm {weights.norm().item():.3f}", flush=True)
        if step == 60:
            metrics.close(late=rank == 1)
            metrics = Metrics(f"rank{rank}.txt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
