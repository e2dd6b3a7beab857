"""Client of the object store."""
import time
import urllib.error
import urllib.request

import numpy as np
import torch


class Shards:
    def __init__(self, port, client, rows, longest=3600):
        self.url = f"http://127.0.0.1:{port}/{client}"
        self.rows, self.longest = rows, longest

    def get(self, number):
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/{number}/{self.rows}") as answer:
                    flat = np.frombuffer(answer.read(), dtype="f4").copy()
                return torch.from_numpy(flat).view(self.rows, 20)
            except urllib.error.HTTPError as error:
                if error.code != 429:
                    raise
                reset = float(error.headers["X-RateLimit-Reset"])
                time.sleep(max(0.0, min(reset - time.time(), self.longest)))

    def batches(self, size, first):
        rest, number = torch.empty(0, 20), first
        while True:
            while len(rest) < size:
                rest = torch.cat([rest, self.get(number)])
                number += 2
            yield rest[:size]
            rest = rest[size:]
