"""Counters of the kernel between two samples, and files that hold numbers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from unhang.watch.process_state.proc_processes import text_of

MAX_RECORDS = 100_000


@dataclass(frozen=True, slots=True)
class KernelPaths:
    """Roots of /proc, /sys, kernel log and shared memory; tests give their own."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")
    kernel: Path = Path("/dev/kmsg")
    kernel_log: Path = Path("/var/log/kern.log")
    shm: Path = Path("/dev/shm")  # noqa: S108 - only its free space is read


class Counters:
    """What was counted at the sample before, by name."""

    def __init__(self) -> None:
        self._before: dict[str, Sequence[int]] = {}

    def since(self, name: str, now: Sequence[int]) -> tuple[int, ...] | None:
        """How much each has grown; None at the first sample, and where one went back (it began anew)."""
        before = self._before.get(name)
        self._before[name] = now
        if before is None or len(before) != len(now):
            return None
        grown = tuple(new - old for new, old in zip(now, before, strict=True))
        return grown if all(one >= 0 for one in grown) else None

    def forget_others(self, names: Iterable[str]) -> None:
        """Only ``names`` are still there."""
        kept = set(names)
        self._before = {name: told for name, told in self._before.items() if name in kept}


def kernel_records(number: int) -> Iterator[str]:
    """Records of ``/dev/kmsg``, which is open under ``number``, from where it stands; a read never waits for new
    ones."""
    for _ in range(MAX_RECORDS):
        try:
            record = os.read(number, 8192)
        except BrokenPipeError:  # overwritten while we read: go on with the oldest one left
            continue
        except OSError:  # nothing more for now
            return
        if not record:
            return
        yield record.decode("utf-8", "replace")


def read_number(path: Path) -> int | None:
    """The number a file holds; None for ``max`` and for no file."""
    word = text_of(path).strip()
    return int(word) if word.lstrip("-").isdecimal() else None


def read_key_values(path: Path) -> dict[str, int]:
    """``name number`` lines, as cgroup files hold them."""
    found = {}
    for line in text_of(path).splitlines():
        name, _, rest = line.partition(" ")
        if rest.strip().isdecimal():
            found[name] = int(rest)
    return found


def rate(grown: int, seconds: float) -> float:
    """Growth per second."""
    return round(grown / seconds, 0) if seconds > 0 else 0.0
