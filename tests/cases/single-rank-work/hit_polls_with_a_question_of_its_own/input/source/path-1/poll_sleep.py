"""Rank 0 waits for an index that another program was to write; nobody writes it."""
import os, time
from base import start, step

def index_is_ready(path):
    return os.path.exists(path) and os.path.getsize(path) > 0

def wait_for_index(path):
    asked = 0
    while True:
        if index_is_ready(path):
            return asked
        asked += 1
        time.sleep(0.5)

rank, model, opt = start()
for i in range(1, 4000):
    loss = step(model, opt)
    if rank == 0 and i % 20 == 0:
        print(f"step {i} loss {loss:.4f}", flush=True)
    if rank == 0 and i == 200:
        wait_for_index("out/index.bin")
