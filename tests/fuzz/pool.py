"""Inputs by their number: which target, made of what, checked in a process that is recycled and limited.

A number and the seed of the run say everything about an input: ``made`` gives the same bytes on every machine.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.fuzz import diagnosing, others, reading, sandbox
from tests.fuzz.folders import Input, changed
from tests.fuzz.made_jobs import job_seeds
from tests.fuzz.seeds import Seed, case_seeds, found_before
from unhang.errors import describe_failure

TARGETS = ("diagnose", "readers", *others.OTHERS)
RECYCLE = {"diagnose": 300, "readers": 4000}
WALL_S = 90.0
IN_MEMORY = "/dev/shm"


@dataclass(frozen=True)
class Work:
    """One input, before it is made."""

    target: str
    seed: str
    number: int

    @property
    def random(self) -> Random:
        """Its own, whatever was made before it."""
        return Random(f"{self.seed}/{self.target}/{self.number}")


def made(work: Work) -> tuple[str, Input]:
    """(the reader or target, what it is given)."""
    rng = work.random
    if work.target == "diagnose":
        seeds = (*case_seeds(), *job_seeds(), *found_before("diagnose"))
        return work.target, changed(rng, seeds[work.number % len(seeds)])
    if work.target == "readers":
        name, data = reading.made(rng, work.number)
        return name, Input(reading.seed_of(name, data), {name: data}, foreign=True)
    files = others.OTHERS[work.target][0](rng, work.number)
    return work.target, Input(Seed(work.target, files), files, foreign=True)


def wrong_with(target: str, name: str, given: Input, place: Path, number: int) -> list[str]:
    """Every promise that ``given`` breaks."""
    if place.exists():
        shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    by_command = target == "diagnose" and number % diagnosing.COMMAND_EVERY == 0
    found: list[str] = []
    try:
        with sandbox.one_input(may_start=by_command) as did:
            if target == "diagnose":
                find = diagnosing.check_command if by_command else diagnosing.check
                found += find(given, place, number)
            elif target == "readers":
                found += reading.check(name, given.files[name], place)
            else:
                found += others.check(target, given.files, place, number)
    except sandbox.TooLong:
        found.append(f"time: more than {sandbox.MAX_S} s of processor time")
    except MemoryError:
        found.append("memory: more than 1 GiB")
    if Path("/tmp/unhang-fuzz-was-here").exists():
        Path("/tmp/unhang-fuzz-was-here").unlink()
        did.append("ran a pickle")
    return found + [f"executed: {each}" for each in did]


@dataclass
class Told:
    """What came of one input."""

    work: Work
    wrong: list[str]
    took_s: float


def workplace() -> tempfile.TemporaryDirectory[str]:
    """A folder, in memory where that can be: on a disk it takes longer to make files than to read them."""
    return tempfile.TemporaryDirectory(prefix="unhang-fuzz-", dir=IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None)


def here(works: Sequence[Work]) -> Iterator[Told]:
    """In this process: for coverage, and to look at one input."""
    with workplace() as folder:
        for work in works:
            began = time.perf_counter()
            name, given = made(work)
            yield Told(
                work, wrong_with(work.target, name, given, Path(folder) / "w", work.number), time.perf_counter() - began
            )


class Lane:
    """One process after the other works through its share of the inputs."""

    def __init__(self, works: Iterator[Work]) -> None:
        self._works = works
        self._waiting: list[Work] = []
        self._at = 0
        self._pid = 0
        self._text = b""
        self._since = time.monotonic()
        self.pipe = -1
        self.over = False
        self._start()

    def _start(self) -> None:
        if not self._waiting:
            first = next(self._works, None)
            if first is None:
                self.over = True
                return
            self._waiting = [first]
            size = RECYCLE.get(first.target, 300)
            self._waiting += itertools.islice(self._works, size - 1)
        self._at, self._text, self._since = 0, b"", time.monotonic()
        reader, writer = os.pipe()
        sys.stdout.flush()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(reader)
            _child(writer, self._waiting)
        os.close(writer)
        self.pipe = reader

    def read(self) -> Iterator[Told]:
        """What the process said by now."""
        data = os.read(self.pipe, 1 << 16)
        *lines, self._text = (self._text + data).split(b"\n")
        for line in lines:
            told = json.loads(line)
            self._since = time.monotonic()
            yield Told(self._waiting[self._at], told[0], told[1])
            self._at += 1
        if not data:
            yield from self._ended()

    def _ended(self, because: str = "") -> Iterator[Told]:
        os.close(self.pipe)
        _, status = os.waitpid(self._pid, 0)
        left = self._waiting[self._at :]
        if left:
            because = because or f"ended: the process ended with status {status}"
            yield Told(left[0], [because], 0.0)
            left = left[1:]
        self._waiting = left
        self._start()

    def look_after(self) -> Iterator[Told]:
        """End a process that has said nothing for too long."""
        if self.over or time.monotonic() - self._since < WALL_S:
            return
        if select.select([self.pipe], [], [], 0)[0]:
            yield from self.read()  # it did: nobody listened, while an input of another was made small
        else:
            os.kill(self._pid, signal.SIGKILL)
            yield from self._ended(f"time: no end after {WALL_S:.0f} s")

    def stop(self) -> None:
        """Whatever it does."""
        if not self.over:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            os.close(self.pipe)
            self.over = True


def _child(writer: int, works: Sequence[Work]) -> None:
    try:
        with workplace() as folder:
            sandbox.close_in(folder)
            for work in works:
                began = time.perf_counter()
                try:
                    name, given = made(work)
                    wrong = wrong_with(work.target, name, given, Path(folder) / "w", work.number)
                except Exception as error:  # noqa: BLE001 - a mistake of the fuzzer's own is told like one of unhang's
                    wrong = [f"fuzzer: {describe_failure(error)}"]
                told = json.dumps([wrong[:8], round(time.perf_counter() - began, 4)])
                os.write(writer, told.encode() + b"\n")
    finally:
        os._exit(0)


def spread(works: Iterator[Work], jobs: int, until: float) -> Iterator[Told]:
    """Over ``jobs`` processes, until the inputs or the time (monotonic) are over."""
    case_seeds(), job_seeds(), reading.reader_seeds(), diagnosing.warm_up()  # once, before the processes share it
    lanes = [Lane(works) for _ in range(jobs)]
    try:
        while any(not lane.over for lane in lanes) and time.monotonic() < until:
            ready, _, _ = select.select([lane.pipe for lane in lanes if not lane.over], [], [], 1.0)
            for lane in lanes:
                if not lane.over and lane.pipe in ready:
                    yield from lane.read()
                else:
                    yield from lane.look_after()
    finally:
        for lane in lanes:
            lane.stop()
