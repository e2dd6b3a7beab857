"""Writes metrics to a JSON-lines file from a thread, so that training does not wait for the disk."""
import json
import queue
import threading


class Tracker:
    def __init__(self, path):
        self.path = path
        self.items = queue.Queue()
        self.thread = threading.Thread(target=self._write, name="tracker")
        self.thread.start()

    def _write(self):
        with open(self.path, "a") as f:
            while (item := self.items.get()) is not None:
                f.write(json.dumps(item) + "\n")
                f.flush()

    def log(self, **values):
        self.items.put(values)

    def close(self):
        self.items.put(None)
        self.thread.join()
