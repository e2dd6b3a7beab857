"""Whom a send or receive waits for, and which root a call names, read from the line that calls."""

from __future__ import annotations

import pytest

from unhang.evidence.items import SourceFile
from unhang.facts.alignment.broadcast_roots import rank_dependent_root
from unhang.facts.waiting.calls_in_source import partner_on_line
from unhang.findings import Source, Where


def program(line: str) -> tuple[Where, dict[str, SourceFile]]:
    text = f"import torch.distributed as dist\nrank = dist.get_rank()\nworld_size = dist.get_world_size()\n{line}\n"
    return Where("/job/train.py", 4, "<module>"), {"/job/train.py": SourceFile(Source("t"), "/job/train.py", text)}


@pytest.mark.parametrize(
    ("line", "operation", "partner"),
    [
        ("dist.send(x, dst=rank + 1)", "send", 2),
        ("dist.recv(x, src=rank - 1)", "recv", 0),
        ("dist.send(x, (rank + 2) % world_size)", "send", 3),
        ("dist.isend(x, dst=(rank + 3) % world_size).wait()", "send", 0),
        ("dist.recv(x, src=neighbour)", "recv", None),
        ("dist.send(x, dst=rank - 2)", "send", None),
        ("dist.send(x, dst=rank + 3)", "send", None),
        ("dist.send(x, dst=rank + 1, group=pipe)", "send", None),
        ("dist.send(x, dst=0), dist.send(y, dst=2)", "send", None),
        ("dist.recv(x)", "recv", None),
    ],
)
def test_the_partner_is_worked_out_from_the_rank_or_stays_open(line: str, operation: str, partner: int | None) -> None:
    where, sources = program(line)

    assert partner_on_line(where, operation, 1, 4, sources) == partner


def test_without_the_source_nobody_is_named() -> None:
    assert partner_on_line(Where("/job/train.py", 4, "f"), "send", 0, 2, {}) is None


@pytest.mark.parametrize(
    ("line", "root"),
    [
        ("dist.broadcast(x, src=int(rank == 0))", "src=int(rank == 0)"),
        ("dist.broadcast_object_list(box, src=rank)", "src=rank"),
        ("dist.broadcast(x, src=0)", None),
        ("dist.all_reduce(x)", None),
    ],
)
def test_a_root_that_depends_on_the_rank_is_spelled(line: str, root: str | None) -> None:
    assert rank_dependent_root(*program(line)) == root
