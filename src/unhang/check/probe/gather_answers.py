"""``unhang check`` under a launcher: every rank sends its results to rank 0, through a folder or torch's store.

All waits are bounded. Through a folder nobody trusts a clock or a leftover: rank 0 asks with a word of its own, and the
others answer every question they see there until the one that asked says it is done.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from unhang.check.sameness.inspection_message import decode_inspection, encode_inspection
from unhang.errors import EvidenceError
from unhang.findings import NotChecked
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.job_environment import LauncherTask
from unhang.sentences import Text, rank_ranges, say

LIMIT_S = 60.0
POLL_S = 0.1
SETTLE_S = 2.0
MAX_BYTES = 16 << 20
HOW = "srun --ntasks-per-node=1 unhang check --dir SHARED"


@dataclass(frozen=True, slots=True)
class GatheredAnswers:
    """Answers by rank, of those that came; ``because``: why nobody could meet, where that is so."""

    answers: Mapping[int, bytes]
    because: Text | None = None


def exchange_answers(
    task: LauncherTask, answer: bytes, folder: Path | None, limit_s: float = LIMIT_S
) -> GatheredAnswers | None:
    """Hand ``answer`` over. Rank 0 gets every answer that came within ``limit_s``; the others get None, or their own
    answer back where nobody took it.
    """
    if folder is not None:
        return _through_folder(task, answer, folder, limit_s)
    if not os.environ.get("MASTER_ADDR") or not os.environ.get("MASTER_PORT", "").isdecimal():
        because = say("the ranks have no place to meet: give --dir, or MASTER_ADDR and MASTER_PORT")
        return GatheredAnswers({task.rank: answer}, because)
    return _through_store(task, answer, limit_s)


def _through_folder(task: LauncherTask, answer: bytes, folder: Path, limit_s: float) -> GatheredAnswers | None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if task.rank == 0:
            return GatheredAnswers(_ask(task, answer, folder, limit_s))
        if _answer(task, answer, folder, limit_s):
            return None
        return GatheredAnswers({task.rank: answer}, say("rank 0 did not ask within {seconds:.0f} s", seconds=limit_s))
    except OSError as error:
        because = say("{folder} cannot be used: {reason}", folder=str(folder), reason=error.strerror or str(error))
        return GatheredAnswers({task.rank: answer}, because)


def _ask(task: LauncherTask, answer: bytes, folder: Path, limit_s: float) -> dict[int, bytes]:
    word = secrets.token_hex(8)
    question, found = folder / f"unhang-asked-{word}", {0: answer}
    _write_atomically(question, b"")
    try:
        for rank in _until(limit_s, lambda: [r for r in range(1, task.count) if r not in found]):
            with suppress(FileNotFoundError):
                path = folder / f"unhang-answer-{word}-{rank}"
                if path.stat().st_size <= MAX_BYTES:
                    found[rank] = path.read_bytes()
    finally:
        question.unlink(missing_ok=True)
        for path in folder.glob(f"unhang-answer-{word}-*"):
            path.unlink(missing_ok=True)
    return found


def _answer(task: LauncherTask, answer: bytes, folder: Path, limit_s: float) -> bool:
    """Answer every open question; True when one that was answered is gone, False when the time is over before."""
    answered: set[str] = set()
    open_words: set[str] = set()
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        open_words = {path.name.removeprefix("unhang-asked-") for path in folder.glob("unhang-asked-*")}
        for word in open_words - answered:
            _write_atomically(folder / f"unhang-answer-{word}-{task.rank}", answer)
            deadline = max(deadline, time.monotonic() + limit_s + SETTLE_S)  # so long who asks may wait for the others
        if answered - open_words:
            break
        answered |= open_words
        time.sleep(POLL_S)
    for word in answered | open_words:
        (folder / f"unhang-answer-{word}-{task.rank}").unlink(missing_ok=True)
    return bool(answered - open_words)


def _through_store(task: LauncherTask, answer: bytes, limit_s: float) -> GatheredAnswers | None:
    try:
        from unhang.check.probe.rendezvous import LauncherRank, ProbeStore
    except ImportError:
        because = say("torch is not installed with unhang, so ranks can meet only in a folder (--dir)")
        return GatheredAnswers({task.rank: answer}, because)
    seat = LauncherRank.of(task, os.environ)
    found = {task.rank: answer}
    deadline = time.monotonic() + limit_s
    try:
        meeting = ProbeStore(seat, limit_s=limit_s)
        if task.rank != 0:
            meeting.put(f"check-{task.rank}", answer)
            return None
        for rank in range(1, task.count):
            said = meeting.take(f"check-{rank}", limit_s=max(0.05, deadline - time.monotonic()))
            if said is not None:
                found[rank] = said
    except (RuntimeError, OSError, ValueError) as error:  # torch's DistStoreError and its kin are RuntimeErrors
        reason = str(error).split("\n", maxsplit=1)[0][:200]
        because = say("{address} does not answer: {reason}", address=f"{seat.address}:{seat.port}", reason=reason)
        return GatheredAnswers(found, because)
    return GatheredAnswers(found)


def _until(limit_s: float, missing: Callable[[], list[int]]) -> Iterator[int]:
    """Every missing rank again and again, until none is missing or the time is over."""
    deadline = time.monotonic() + limit_s
    while True:
        yield from missing()
        if not missing() or time.monotonic() > deadline:
            return
        time.sleep(POLL_S)


def _write_atomically(path: Path, data: bytes) -> None:
    """Write aside and move in place. Private to the user."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    number = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(number, "wb") as file:
        file.write(data)
    aside.replace(path)


def gather_inspections(
    task: LauncherTask, here: NodeInspection, folder: Path | None, limit_s: float = LIMIT_S
) -> tuple[Sequence[NodeInspection], tuple[NotChecked, ...]] | None:
    """What every rank saw, and who is missing; None in every rank whose answer the first one took, which alone judges.

    ``folder`` is shared by all; without one they meet at torch's store.
    """
    here = replace(here, rank=task.rank)
    met = exchange_answers(task, encode_inspection(here), folder, limit_s)
    if met is None or (met.because is not None and task.local_rank > 0):
        return None
    found, gaps = {task.rank: here}, []
    for rank, message in met.answers.items():
        if rank != task.rank:
            try:
                found[rank] = replace(decode_inspection(message), rank=rank)
            except EvidenceError as error:
                gaps.append(_gap(say("Rank {rank}", rank=rank), say("{reason}", reason=str(error))))
    missing = [rank for rank in range(task.count) if rank not in met.answers]
    if missing:
        because = met.because or say("they did not report within {seconds:.0f} s", seconds=limit_s)
        what = say("The nodes of ranks {ranks}", ranks=rank_ranges(missing))
        gaps.append(_gap(what, because))
    return _share_node_answers([found[rank] for rank in sorted(found)]), tuple(gaps)


def _gap(what: Text, because: Text) -> NotChecked:
    return NotChecked(what, because, HOW, check="sameness")


def _share_node_answers(situations: Sequence[NodeInspection]) -> list[NodeInspection]:
    """Only one rank of a node asks everything; the others know what it knows."""
    first: dict[str, NodeInspection] = {}
    for situation in situations:
        known = first.get(situation.node)
        if known is None or len(situation.results) > len(known.results):
            first[situation.node] = situation
    return [replace(s, results={**first[s.node].results, **s.results}) for s in situations]
