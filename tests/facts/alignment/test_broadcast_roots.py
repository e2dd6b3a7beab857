"""A root that depends on the rank is seen in the call, named or by its place."""

from __future__ import annotations

import pytest

from unhang.evidence.items import SourceFile
from unhang.facts.alignment.broadcast_roots import rank_dependent_root
from unhang.findings import Source, Where


def root_of(line: str) -> str | None:
    text = f"rank = dist.get_rank()\nowner = 1 if rank == 1 else 0\n{line}\n"
    source = SourceFile(Source("train.py"), "train.py", text)
    return rank_dependent_root(Where("train.py", 3, "<module>"), {"train.py": source})


@pytest.mark.parametrize(
    ("line", "root"),
    [
        ("dist.broadcast(best, src=owner)", "src=owner"),
        ("dist.broadcast(best, owner)", "src=owner"),
        ("dist.reduce(best, rank % 2, group=pair)", "dst=rank % 2"),
        ("dist.gather(best, parts, owner)", "dst=owner"),
        ("dist.broadcast(best, 0)", None),
        ("dist.broadcast(rows[rank], src=0)", None),
        ("dist.all_reduce(best, owner)", None),
    ],
)
def test_the_root_that_each_rank_names_by_itself(line: str, root: str | None) -> None:
    assert root_of(line) == root
