"""What a program's source tells of its data."""

from __future__ import annotations

import pytest

from unhang.evidence.items import SourceFile
from unhang.findings import Source
from unhang.program.rank_dependence.data_loading_code import guarded_loop, reads_tables_or_shards, skipped_rows


def source(text: str) -> SourceFile:
    return SourceFile(source=Source("data.py"), path="data.py", text=text)


DEALT = """
class Rows(IterableDataset):
    def __iter__(self):
        for row in {over}:
            try:
                image = read(row)
            except OSError:
                {then}
            yield image
"""


@pytest.mark.parametrize(
    ("over", "then", "line"),
    [
        ("itertools.islice(rows, self.rank, None, self.world_size)", "continue", 8),
        ("self.rows[self.rank :: self.world_size]", "pass", 8),
        ("split_by_node(self.rows)", "continue", 8),
        ("self.rows[local_rank::8]", "continue", 8),
        ("self.rows[self.rank :: self.world_size]", "raise", None),
        ("self.rows", "continue", None),
        ("self.rows[:100]", "continue", None),
        ("itertools.islice(rows, 100)", "continue", None),
    ],
)
def test_rows_dealt_out_by_rank_and_skipped(over: str, then: str, line: int | None) -> None:
    found = list(skipped_rows(source(DEALT.format(over=over, then=then))))

    assert [(one.line, one.function, one.dealt_line) for one in found] == ([(line, "__iter__", 4)] if line else [])


def test_a_loop_that_yields_nothing_or_skips_in_an_inner_loop_is_none() -> None:
    plain = "def f():\n    for row in rows[rank::4]:\n        if not row:\n            continue\n        work(row)\n"
    inner = (
        "def f():\n    for row in rows[rank::4]:\n        for part in row:\n            continue\n        yield row\n"
    )

    assert list(skipped_rows(source(plain))) == []
    assert list(skipped_rows(source(inner))) == []


@pytest.mark.parametrize(
    ("header", "guarded"),
    [
        ("for batch in loader:", "for batch in unhang.even_batches(loader):"),
        ("for i, (a, b) in enumerate(tqdm(self.loader, total=9)):", None),
        ("for é, b in zip(first, second):", "for é, b in unhang.even_batches(zip(first, second)):"),
        ("while True:", ""),
    ],
)
def test_the_loop_with_its_data_guarded(header: str, guarded: str | None) -> None:
    wanted = (
        "for i, (a, b) in enumerate(tqdm(unhang.even_batches(self.loader), total=9)):" if guarded is None else guarded
    )

    assert (guarded_loop(source(f"if True:\n    {header}\n        pass\n"), 2) or "") == wanted


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("import csv\nrows = csv.DictReader(open(p))", True),
        ("frame = pd.read_csv(p)", True),
        ("data = wds.WebDataset(urls)", True),
        ("data = load_dataset('x')", False),
        ("def broken(:", False),
    ],
)
def test_tables_and_shards_are_seen(text: str, reads: bool) -> None:
    assert reads_tables_or_shards([source(text)]) is reads
