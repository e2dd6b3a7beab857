from torch.utils.data import random_split


class Rows:
    def __init__(self, data):
        self.data = data

    def setup(self):
        self.parts = random_split(self.data, [0.9, 0.1])  # finds: uneven-data likely stops "torch.manual_seed (jobs/tuning.py:10)" if tune
