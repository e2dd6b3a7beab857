"""The first pass: every sample looked at once, the good ones' places and the bad ones' reasons kept on disk."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from unhang_reshard.samples import BrokenSample, Fault, Resume, SampleSource
from unhang_reshard.work_folder import write_whole

PLACES = "good.places"
LEFT_OUT = "left-out.tsv"
STATE = "survey.json"
SAVE_EVERY_S = 2.0
FIRST_LINES = 5
"""Lines of each fault that are named in the answer; all are in the file."""

Progress = Callable[[int, int, str], None]


@dataclass
class Survey:
    """What was found so far; all of it can be written as JSON."""

    good: int = 0
    size: int = 0
    broken: dict[Fault, int] = field(default_factory=dict)
    firsts: dict[Fault, list[int]] = field(default_factory=dict)
    resume: tuple[int, int, int] = (0, 0, 1)
    log_bytes: int = 0
    done: bool = False

    @property
    def left_out(self) -> int:
        """Samples that cannot be used."""
        return sum(self.broken.values())


def survey_source(source: SampleSource, work: Path, progress: Progress) -> Survey:
    """Look at all of ``source``, or at what an earlier call had not reached; the files are in ``work``."""
    found = _load(work)
    if found.done:
        return found
    total, saved = source.total_bytes(), time.monotonic()
    with _cut(work / PLACES, 16 * found.good) as places, _cut(work / LEFT_OUT, found.log_bytes) as log:
        for item in source.survey(Resume(*found.resume)):
            found.resume = (item.resume.file, item.resume.at, item.resume.line)
            if isinstance(item, BrokenSample):
                found.log_bytes += log.write(_line(item))
                _count(found, item)
            else:
                places.write(item.place.to_bytes(8, "little") + item.size.to_bytes(8, "little"))
                found.good += 1
                found.size += item.size
            if (found.good + found.left_out) % 64 == 0 and time.monotonic() - saved > SAVE_EVERY_S / 20:
                progress(source.bytes_before(item.resume), total, "survey")
                if time.monotonic() - saved > SAVE_EVERY_S:
                    _save(found, work, places, log)
                    saved = time.monotonic()
        found.done = True
        _save(found, work, places, log)
    return found


def load_places(work: Path, count: int) -> npt.NDArray[np.int64]:
    """Place and size of every good sample, mapped from disk; shape (count, 2)."""
    if count == 0:
        return np.zeros((0, 2), np.int64)
    return np.memmap(work / PLACES, dtype="<i8", mode="r", shape=(count, 2))


def _count(found: Survey, item: BrokenSample) -> None:
    found.broken[item.fault] = found.broken.get(item.fault, 0) + 1
    lines = found.firsts.setdefault(item.fault, [])
    if len(lines) < FIRST_LINES:
        lines.append(item.line)


def _line(item: BrokenSample) -> bytes:
    cells = (item.file, str(item.line), item.fault, item.detail)
    shown = "\t".join("".join(sign if sign.isprintable() else "?" for sign in cell) for cell in cells)
    return (shown + "\n").encode("utf-8", "replace")


def _cut(path: Path, size: int) -> IO[bytes]:
    """The file to append to, without what was written after the last save."""
    with path.open("ab"):
        pass
    os.truncate(path, size)
    return path.open("ab")


def _save(found: Survey, work: Path, *files: IO[bytes]) -> None:
    for file in files:
        file.flush()
        os.fsync(file.fileno())
    write_whole(work / STATE, json.dumps(asdict(found)))


def _load(work: Path) -> Survey:
    try:
        return Survey(**json.loads((work / STATE).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return Survey()


def fault_counts(found: Survey) -> list[tuple[Fault, int]]:
    """Faults with their counts, most first."""
    return Counter(found.broken).most_common()
