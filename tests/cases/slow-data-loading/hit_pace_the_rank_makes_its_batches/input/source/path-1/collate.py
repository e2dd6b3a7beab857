"""Collate functions: pad token lists and mask words."""
import random

import torch

MASK, PAD = 3, 0


class TensorCollate:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def __call__(self, rows):
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(r) for r in rows], batch_first=True)
        mask = (torch.rand(ids.shape, generator=self.g) < 0.15) & (ids != PAD)
        return ids.masked_fill(mask, MASK), ids


class ListCollate:
    """Whole words only: continuation pieces (odd ids) follow their word; words of rare pieces are masked more often."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.seen = {}

    def words(self, row):
        start, weight = 0, 0.0
        for i, piece in enumerate(row):
            if i > start and piece % 2 == 0:
                yield start, i, weight / (i - start)
                start, weight = i, 0.0
            count = self.seen[piece] = self.seen.get(piece, 0) + 1
            weight += min(1.0, 400.0 / count) ** 0.5
        yield start, len(row), weight / (len(row) - start)

    def mask(self, row):
        out = list(row)
        for start, end, weight in self.words(row):
            if self.rng.random() < 0.1 + 0.1 * weight:
                for i in range(start, end):
                    out[i] = MASK if self.rng.random() < 0.8 else self.rng.randrange(4, 1000)
        return out

    def __call__(self, rows):
        """Of some maskings of a row the one nearest to 15 percent."""
        width = max(map(len, rows))
        masked = []
        for row in rows:
            out = min((self.mask(row) for _ in range(5)), key=lambda o: abs(o.count(MASK) - 0.15 * len(row)))
            masked.append(out + [PAD] * (width - len(out)))
        return torch.tensor(masked), torch.tensor([list(r) + [PAD] * (width - len(r)) for r in rows])
