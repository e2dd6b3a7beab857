import random


class Pictures:
    def __init__(self, folder):
        self.rows = [row for row in open(folder) if random.random() < 0.9]  # finds: uneven-data likely stops if pictures


class Table:
    def __init__(self, file):
        self.rows = list(open(file))
