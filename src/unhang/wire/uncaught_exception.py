"""``crash/rank_N.except``: the exceptions of a rank that nobody caught, a line of JSON each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

MAX_BYTES = 4 << 20


@dataclass(slots=True, kw_only=True)
class UncaughtException:
    """``file``, ``line``, ``function``: the innermost line of the user's own; ``frames``: the traceback, innermost
    last. Secrets are taken out of ``message``."""

    time_s: float = 0.0
    thread: str
    type: str
    message: str
    file: str
    line: int
    function: str
    frames: list[tuple[str, int, str]] = field(default_factory=list)

    @property
    def ends_the_process(self) -> bool:
        """It was raised in the main thread."""
        return self.thread == "MainThread"

    def encode(self) -> bytes:
        """The line."""
        return json.dumps(asdict(self)).encode() + b"\n"

    def as_printed(self) -> str:
        """As Python prints it."""
        head = "" if self.ends_the_process else f"Exception in thread {self.thread}:\n"
        frames = self.frames or [(self.file, self.line, self.function)]
        places = "".join(f'  File "{file}", line {number}, in {function}\n' for file, number, function in frames)
        return f"{head}Traceback (most recent call last):\n{places}{self.type}: {self.message}\n"


def exceptions_file(folder: Path, rank: int) -> Path:
    """Where those of ``rank`` lie in the run folder."""
    return folder / "crash" / f"rank_{rank}.except"


def read_exceptions(folder: Path, rank: int) -> Iterator[UncaughtException]:
    """Those of ``rank``; torn lines are left out. Raises OSError where there is no file."""
    with exceptions_file(folder, rank).open("rb") as file:
        lines = file.read(MAX_BYTES).splitlines()
    for line in lines:
        with suppress(ValueError, TypeError, RecursionError):
            told = json.loads(line)
            found = UncaughtException(
                **{one.name: told[one.name] for one in fields(UncaughtException) if one.name in told}
            )
            found.frames = [(str(path), int(number), str(function)) for path, number, function in found.frames]
            yield found
