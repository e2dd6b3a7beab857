"""Every error of a guard that names a cause ends in a line of JSON, and diagnose reads the same from it as from the
English sentences."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.guards.ranks import run_ranks
from unhang.diagnosis.diagnose import diagnose
from unhang.errors import RankFailed
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.endings.guard_errors import ParsedGuardError, guard_errors
from unhang.guards.even_batches import even_batches
from unhang.guards.exchange.printing import exception_text
from unhang.guards.rank_zero_first import rank_zero_first
from unhang.guards.sameness import same_on_all_ranks
from unhang.guards.together import together
from unhang.wire.guard_statement import MARK, GuardStatement
from unhang.wire.record_views import CodeLine

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.job, pytest.mark.timeout(100)]
BAD_SHARD = "OSError: shard-7.tar is cut short"
BAD_ROW = "ValueError: bad row 7 in shard 3"
OTHER_ROWS = "rows of training[3]: 'row 0' on rank 0, 'row 1' on rank 1"


def at(text: str, function: str = "") -> CodeLine:
    lines = enumerate(Path(__file__).read_text().splitlines(), 1)
    return CodeLine(__file__, next(n for n, line in lines if line.endswith(text)), function)


def behind_a_branch(rank: int) -> None:
    if rank == 0:  # the branch
        together("save", timeout_s=1)
    time.sleep(30)


def partner_died(rank: int) -> None:
    together("start")
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    together("save", timeout_s=5)


def not_at_the_loop(rank: int) -> None:
    if rank == 0:  # to the loop
        list(even_batches([1, 2], timeout_s=1))
    time.sleep(30)


def too_late(rank: int) -> None:
    if rank == 1:
        time.sleep(4)
    together("save", timeout_s=1)


def other_rows(rank: int) -> None:
    same_on_all_ranks([f"row {rank}" if n == 3 else "row" for n in range(5)], "rows of training")


def other_settings(rank: int) -> None:
    same_on_all_ranks({"lr": rank}, "arguments")


def other_lengths(rank: int) -> None:
    list(even_batches([1] * (4 + (rank == 2)), "error"))


def left_alone(rank: int) -> None:
    for batch in even_batches([1] * 9):
        time.sleep(0.5)
        if rank == 1 and batch == 1:
            break


def still_at_it(rank: int) -> None:
    together("start")
    with rank_zero_first("rows", timeout_s=3) as first:
        time.sleep(12 if first else 0)  # still at it


def failed_first(rank: int) -> None:
    with rank_zero_first("rows"):
        raise ValueError("bad row 7\nin shard 3")


def failed_inside(rank: int) -> None:
    with together("save"):
        if rank == 1:
            raise OSError("disk full")


class Rows:
    """A data set of eight rows, of which one cannot be read."""

    def __init__(self, bad: int) -> None:
        self._bad = bad

    def __len__(self) -> int:
        return 8

    def __getitem__(self, row: int) -> int:
        if row == self._bad:
            raise OSError("shard-7.tar is cut short")
        return row


def bad_batch(rank: int) -> None:
    from torch.utils.data import DataLoader

    for _ in even_batches(DataLoader(Rows(4 if rank == 1 else -1))):  # type: ignore[arg-type]
        time.sleep(0.1)


def bad_first_batch(rank: int) -> None:
    from torch.utils.data import DataLoader

    list(even_batches(DataLoader(Rows(0 if rank == 1 else -1))))  # type: ignore[arg-type]


def bad_stream(rank: int) -> None:
    def batches() -> Iterator[int]:
        yield from range(3)
        if rank == 1:
            raise OSError("shard-7.tar is cut short")
        yield from range(3)

    list(even_batches(batches()))


def short_stream(rank: int) -> None:
    list(even_batches((n for n in range(3 + rank)), "error"))


def raised(body: Callable[[int], None], rank: int, *, world_size: int = 2) -> str:
    """What ``rank`` prints when it falls, as torch prints it."""
    outcome = run_ranks(body, world_size=world_size, until=rank)[rank]
    assert outcome.trace, outcome
    return "".join(f"[rank{rank}]: {line}\n" for line in outcome.trace.splitlines())


def read(folder: Path, log: str) -> tuple[list[ParsedGuardError], list[Any]]:
    """(what the guard said, what the verdict says) of a log."""
    (folder / "job.log").write_text(log)
    facts = build_facts(read_evidence([str(folder)]))
    verdict = diagnose(facts)
    return list(guard_errors(facts.tracebacks)), [verdict.status, verdict.findings]


def without_json(log: str) -> str:
    return "".join(line for line in log.splitlines(keepends=True) if MARK not in line)


SAVE, LOOP, LIVE = "together('save')", "even_batches", pytest.mark.live


@pytest.mark.parametrize(
    ("body", "rank", "said"),
    [
        (
            behind_a_branch,
            0,
            GuardStatement("missing", SAVE, (1,), came=(0,), branch=at("# the branch"), test="if rank == 0"),
        ),
        pytest.param(partner_died, 0, GuardStatement("missing", SAVE, (1,), came=(0,), partner_died=True), marks=LIVE),
        (
            not_at_the_loop,
            0,
            GuardStatement("missing", LOOP, (1,), came=(0,), branch=at("# to the loop"), test="if rank == 0"),
        ),
        pytest.param(too_late, 1, GuardStatement("missing", SAVE, (1,)), marks=LIVE),
        (other_rows, 0, GuardStatement("differ", "rows of training", (0, 1), detail=OTHER_ROWS)),
        (other_lengths, 0, GuardStatement("differ", LOOP, (2,), detail="ranks 0, 1 4, rank 2 5", of_data=True)),
        (left_alone, 0, GuardStatement("apart", LOOP, (1,))),
        (
            still_at_it,
            1,
            GuardStatement(
                "slow", "rank_zero_first('rows')", (0,), at=at("# still at it", "still_at_it"), waited_s=3.0
            ),
        ),
        (failed_first, 1, GuardStatement("failed", "rank_zero_first('rows')", (0,), detail=BAD_ROW)),
        (failed_inside, 0, GuardStatement("failed", SAVE, (1,), detail="OSError: disk full")),
        (bad_batch, 0, GuardStatement("failed", LOOP, (1,), detail=BAD_SHARD)),
        pytest.param(bad_first_batch, 0, GuardStatement("failed", LOOP, (1,), detail=BAD_SHARD), marks=LIVE),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_json_says_what_the_sentences_say(
    body: Callable[[int], None], rank: int, said: GuardStatement, tmp_path: Path
) -> None:
    log = raised(body, rank, world_size=3 if body is other_lengths else 2)
    (error,), verdict = read(tmp_path, log)
    (english,), old_verdict = read(tmp_path, without_json(log))

    assert log.splitlines()[-1].startswith(f"[rank{rank}]: {MARK}{{"), log
    assert error.said == said
    assert error == english
    assert verdict == old_verdict


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (bad_stream, GuardStatement("failed", "even_batches", (1,), detail=BAD_SHARD)),
        (
            short_stream,
            GuardStatement("differ", "even_batches", (0,), detail="rank 0 3, rank 1 4 or more", of_data=True),
        ),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_json_of_streams_says_what_could_not_be_read_from_the_sentences(
    body: Callable[[int], None], said: GuardStatement, tmp_path: Path
) -> None:
    (error,), _ = read(tmp_path, raised(body, 0))

    assert error.said == said


def test_settings_that_differ_are_no_data_that_differs(tmp_path: Path) -> None:
    log = raised(other_settings, 0)

    assert f'{MARK}{{"kind":"differ","what":"arguments"' in log
    assert read(tmp_path, log) == read(tmp_path, without_json(log))
    assert read(tmp_path, log)[0] == []


def test_the_error_inside_of_an_error_has_no_line_of_its_own() -> None:
    inner = RankFailed("rank 1 failed", rank=1, reason="", statement=GuardStatement("failed", "save", (1,)).line())

    assert MARK in str(inner)
    assert exception_text(inner) == "RankFailed: rank 1 failed"
