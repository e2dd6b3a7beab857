"""Batches are made in a thread while the model works."""
import queue
import threading


class Prefetcher:
    def __init__(self, source, depth=6):
        self.queue = queue.Queue(depth)
        self.thread = threading.Thread(target=self._fill, args=(source,), daemon=True)
        self.thread.start()

    def _fill(self, source):
        for batch in source:
            self.queue.put(batch)
        self.queue.put(None)

    def __iter__(self):
        while (batch := self.queue.get()) is not None:
            yield batch

    def close(self):
        self.thread.join()
