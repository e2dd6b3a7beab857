"""Rank 0 sends all records to a helper before it reads its answers."""
import json, subprocess, sys, time
from base import start, step
HELPER = "import sys\nfor line in sys.stdin: print(line.strip() * 3, flush=True)\n"

def answers(count):
    p = subprocess.Popen([sys.executable, "-S", "-c", HELPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for n in range(count):
        p.stdin.write(json.dumps({"id": n, "text": "word " * 8}) + "\n")
    p.stdin.close()
    return sum(len(line) for line in p.stdout)

rank, model, opt = start()
for i in range(1, 4000):
    loss = step(model, opt)
    if rank == 0 and i % 20 == 0:
        print(f"step {i} loss {loss:.4f}", flush=True)
    if rank == 0 and i % 60 == 0:
        print("answers", answers(20 if i < 180 else 8000), flush=True)
