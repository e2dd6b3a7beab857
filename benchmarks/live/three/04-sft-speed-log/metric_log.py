"""Metrics are written by a thread so that a slow disk does not hold up training."""
import json
import queue
import threading
import time


class MetricLog:
    def __init__(self, path, depth=32):
        self.path = path
        self.rows = queue.Queue(maxsize=depth)
        self.thread = threading.Thread(target=self._write, daemon=True)
        self.thread.start()

    def add(self, **row):
        row["time"] = round(time.time(), 3)
        self.rows.put(row)

    def _write(self):
        with open(self.path, "a", buffering=1) as f:
            while True:
                row = self.rows.get()
                if row is None:
                    return
                f.write(json.dumps(row, allow_nan=False) + "\n")

    def close(self):
        self.rows.put(None)
        self.thread.join()
