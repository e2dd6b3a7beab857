"""What a program's source tells of its data."""

from __future__ import annotations

import pytest

from unhang.evidence.items import SourceFile
from unhang.findings import Source
from unhang.program.rank_dependence.data_loading_code import guarded_loop, reads_tables_or_shards


def source(text: str) -> SourceFile:
    return SourceFile(source=Source("data.py"), path="data.py", text=text)


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
