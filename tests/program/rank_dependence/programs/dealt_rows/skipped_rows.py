"""Rows that are dealt out by rank, and skipped where they cannot be read."""


class SlicedByAFunction(IterableDataset):
    def __iter__(self):
        for row in itertools.islice(rows, self.rank, None, self.world_size):
            try:
                image = read(row)
            except OSError:
                continue  # finds: __iter__ skips a row of: for row in itertools.islice(rows, self.rank, None, self.world_size):
            yield image


class Sliced(IterableDataset):
    def __iter__(self):
        for row in self.rows[self.rank :: self.world_size]:
            try:
                image = read(row)
            except OSError:
                pass  # finds: __iter__ skips a row of: for row in self.rows[self.rank :: self.world_size]:
            yield image


class SplitByALibrary(IterableDataset):
    def __iter__(self):
        for row in split_by_node(self.rows):
            try:
                image = read(row)
            except OSError:
                continue  # finds: __iter__ skips a row of: for row in split_by_node(self.rows):
            yield image


class SlicedByTheLocalRank(IterableDataset):
    def __iter__(self):
        for row in self.rows[local_rank::8]:
            try:
                image = read(row)
            except OSError:
                continue  # finds: __iter__ skips a row of: for row in self.rows[local_rank::8]:
            yield image


class Raised(IterableDataset):
    def __iter__(self):
        for row in self.rows[self.rank :: self.world_size]:
            try:
                image = read(row)
            except OSError:
                raise  # fine
            yield image


class OfAllRanks(IterableDataset):
    def __iter__(self):
        for row in self.rows:
            try:
                image = read(row)
            except OSError:
                continue  # fine
            yield image


class TheFirstHundred(IterableDataset):
    def __iter__(self):
        for row in self.rows[:100]:
            try:
                image = read(row)
            except OSError:
                continue  # fine
            yield image


class TheFirstHundredByAFunction(IterableDataset):
    def __iter__(self):
        for row in itertools.islice(rows, 100):
            try:
                image = read(row)
            except OSError:
                continue  # fine
            yield image


def yields_nothing():
    for row in rows[rank::4]:
        if not row:
            continue  # fine
        work(row)


def skips_in_an_inner_loop():
    for row in rows[rank::4]:
        for part in row:
            continue  # fine
        yield row
