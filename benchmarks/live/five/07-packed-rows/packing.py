"""Packs tokenised documents into rows of a fixed length."""


class Packer:
    """Best fit from a small pool of documents; a row is padded when nothing fits any more."""

    def __init__(self, docs, length, pool=12):
        self.docs = iter(docs)
        self.length, self.size = length, pool
        self.pool = []

    def refill(self):
        while len(self.pool) < self.size:
            self.pool.append(next(self.docs))

    def row(self):
        parts, room = [], self.length
        while room > 0:
            self.refill()
            fit = max((d for d in self.pool if len(d) <= room), key=len, default=None)
            if fit is None and parts:
                break
            if fit is not None:
                self.pool.remove(fit)
                parts.append(fit)
                room -= len(fit)
        return [t for part in parts for t in part] + [0] * room

    def rows(self, count):
        return [self.row() for _ in range(count)]
