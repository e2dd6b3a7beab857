"""Ranks that stand in the same place, said in one line each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from unhang.evidence.items import Frame, StackDump
from unhang.knowledge.libraries import is_library_file
from unhang.sentences import Text, say
from unhang.watch.attach.collected_evidence import CollectedEvidence


def stack_group_lines(taken: CollectedEvidence) -> Iterator[Text]:
    """One line a group of equal stacks, the largest group first."""
    groups: dict[tuple[str, str], list[int]] = {}
    for rank in taken.chosen.ranks:
        groups.setdefault((_place(taken, rank.pid), _movement(taken, rank.rank)), []).append(rank.rank)
    for (place, movement), ranks in sorted(groups.items(), key=lambda item: (-len(item[1]), item[1])):
        yield _line(movement, ranks, place)


def _line(movement: str, ranks: list[int], place: str) -> Text:
    if movement == "stopped":
        return say("{ranks:who}: {place} (stopped, state T)", ranks=ranks, place=place)
    if movement == "once":
        return say("{ranks:who}: {place} (looked at once)", ranks=ranks, place=place)
    if movement == "spins":
        return say("{ranks:who}: {place} (one line in every look; uses the processor)", ranks=ranks, place=place)
    if movement == "busy":
        return say("{ranks:who}: {place} (uses the processor)", ranks=ranks, place=place)
    if movement == "moving":
        return say("{ranks:who}: {place} (moving)", ranks=ranks, place=place)
    return say("{ranks:who}: {place} (does not move)", ranks=ranks, place=place)


def _movement(taken: CollectedEvidence, rank: int) -> str:
    if taken.states().get(rank, "") in ("T", "t"):
        return "stopped"
    answer = taken.moving.get(rank)
    if answer is None:
        samples = next((taken.samples.get(r.pid, []) for r in taken.chosen.ranks if r.rank == rank), [])
        return "spins" if len(samples) > 1 else "once"
    if not answer:
        return "still"
    return "busy" if rank in taken.refused() else "moving"


def _place(taken: CollectedEvidence, pid: int) -> str:
    dumps = [sample.dump for sample in taken.samples.get(pid, []) if sample.dump is not None]
    if dumps:
        return _main_place(dumps[-1])
    kernel = taken.samples[pid][-1].kernel if taken.samples.get(pid) else None
    if kernel is None or not kernel.state:
        return "gone"
    where = f", in {kernel.waits_in}" if kernel.waits_in else ""
    return f"no stack; kernel state {kernel.state}{where}"


def _main_place(dump: StackDump) -> str:
    main = next((t for t in dump.threads if t.name == "MainThread"), dump.threads[0])
    frames = [frame for frame in main.frames if not frame.native and frame.line is not None]
    if not frames:
        return "no Python frame"
    mine = next((frame for frame in frames if not is_library_file(frame.file)), None)
    inner = frames[0].function
    if mine is None or mine is frames[0]:
        return _named(frames[0])
    return f"{inner} < {_named(mine)}"


def _named(frame: Frame) -> str:
    return f"{frame.function} {PurePosixPath(frame.file).name}:{frame.line}"
