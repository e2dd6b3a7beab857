"""Ranks that stand in the same place, said in one line each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from unhang.evidence.items import Frame, StackDump
from unhang.findings import Text, say
from unhang.knowledge.libraries import is_library_file
from unhang.watch.attach.taking import Taken


def standing(taken: Taken) -> Iterator[Text]:
    """One line a group of equal stacks, the largest group last read first."""
    groups: dict[tuple[str, str], list[int]] = {}
    for rank in taken.chosen.ranks:
        groups.setdefault((_place(taken, rank.pid), _moves(taken, rank.rank)), []).append(rank.rank)
    for (place, moves), ranks in sorted(groups.items(), key=lambda item: (-len(item[1]), item[1])):
        yield say("{ranks:who}: {place} ({moves})", ranks=ranks, place=place, moves=moves)


def _moves(taken: Taken, rank: int) -> str:
    state = taken.states().get(rank, "")
    if state in ("T", "t"):
        return "stopped, state T"
    answer = taken.moving.get(rank)
    if answer and rank in taken.refused():
        return "uses the processor"
    return "looked at once" if answer is None else "moving" if answer else "does not move"


def _place(taken: Taken, pid: int) -> str:
    dumps = [look.dump for look in taken.looks.get(pid, []) if look.dump is not None]
    if dumps:
        return _main_place(dumps[-1])
    kernel = taken.looks[pid][-1].kernel if taken.looks.get(pid) else None
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
