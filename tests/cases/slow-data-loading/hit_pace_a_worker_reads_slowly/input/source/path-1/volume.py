"""Files on a volume with a limited rate (a network disk)."""
import time


class Volume:
    def __init__(self, rate):
        self.rate, self.free = rate, time.monotonic()

    def read(self, path, start, size):
        now = time.monotonic()
        self.free = max(self.free, now) + size / self.rate
        with open(path, "rb") as f:
            f.seek(start)
            data = f.read(size)
        time.sleep(max(0.0, self.free - time.monotonic()))
        return data
