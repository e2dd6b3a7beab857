"""Streams one shard to stdout, like the object store's command-line client: fetch.py SHARD.

The bandwidth is that of the shard's storage class."""
import sys
import time
from pathlib import Path

RATES = {"standard": 4_000_000, "cold": 2_500}  # bytes a second
CHUNK = 2048

path = Path(sys.argv[1])
rate = RATES[path.parent.name]
sent, start = 0, time.monotonic()
with open(path, "rb") as f:
    while data := f.read(CHUNK):
        sent += len(data)
        time.sleep(max(0.0, start + sent / rate - time.monotonic()))
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
