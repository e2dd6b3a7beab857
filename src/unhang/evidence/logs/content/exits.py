"""How processes ended, as launchers and schedulers tell it: lines, and torchrun's table of failures."""

from __future__ import annotations

import signal as signals
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unhang.evidence.logs.lines.timestamps import TimestampReader
from unhang.findings import shortened
from unhang.knowledge import numbers
from unhang.late_pattern import late_pattern

MAX_EXITS = 20_000
_FIELD = late_pattern(r"^\s*(?P<name>time|host|rank|exitcode|error_file|traceback)\s{0,8}: (?P<value>.*)$")
TABLE_FIELDS = ("time ", "host ", "rank ", "exitcode", "error_file", "traceback ")
"""How the rows of torchrun's table of failures start."""
_RANK = late_pattern(r"(?P<rank>\d+) \(local_rank: (?P<local>\d+)\)")
_CODE = late_pattern(r"(?P<code>-?\d+) \(pid: (?P<pid>\d+)\)")
_EXITED = late_pattern(r"[Ee]xited with exit code (?P<code>\d+)|Exit(?:ed)? (?:code |status )?(?P<code2>\d+)")
_WORDS = (
    ("Segmentation fault", -11),
    ("Aborted", -6),
    ("Out Of Memory", -9),
    ("Killed", -9),
    ("Terminated", -15),
    ("Bus error", -7),
    ("Illegal instruction", -4),
    ("Floating point exception", -8),
    ("Hangup", -1),
    ("Interrupt", -2),
)
_LOCAL_RANK = late_pattern(r"--local[_-]rank=(\d+)")
_SOURCE_BY_KIND = {
    "te.failed": "torchelastic",
    "te.closing": "torchelastic",
    "te.sigexc": "torchelastic",
    "srun.exit": "slurm",
    "pals.exit": "mpiexec",
    "mpi.exit": "mpirun",
    "ds.kill": "deepspeed",
    "ds.exit": "deepspeed",
    "mp.exitcode": "multiprocessing",
    "py.calledprocess": "launcher",
    "py.died": "launcher",
    "shell.killed": "shell",
    "shell.oom": "shell",
}


@dataclass(slots=True)
class RawExit:
    """One ended process."""

    line: int
    rank: int | None
    local_rank: int | None
    pid: int | None
    exit_code: int | None
    time_s: float | None
    host: str | None
    source_kind: str
    by_launcher: bool
    attempt: int
    text: str
    task: bool = False
    """``rank`` is a scheduler's task number: a rank unless each task is itself a launcher."""


class ExitReader:
    """Collects exits; one process told twice is kept once, with everything known of it."""

    def __init__(self, clock: TimestampReader) -> None:
        self._clock = clock
        self._by_pid: dict[tuple[int, int], RawExit] = {}
        self._others: list[RawExit] = []
        self._fields: dict[str, str] = {}
        self._fields_line = 0
        self.dropped = 0
        self.torchrun = False

    def take_event(
        self,
        kind: str,
        values: Mapping[str, Any],
        *,
        line: int,
        time_s: float | None,
        host: str | None,
        attempt: int,
        text: str,
    ) -> None:
        """Read a recognised line; lines that tell no exit are passed over."""
        source_kind = _SOURCE_BY_KIND.get(kind)
        if kind.startswith("te."):
            self.torchrun = True
        if source_kind is None:
            return
        text = shortened(text, 300)
        code = _code(kind, values)
        local = values.get("local_rank")
        if kind == "ds.exit" and (found := _LOCAL_RANK.search(str(values.get("command", "")))) is not None:
            local = numbers.rank(found[1])
        ranks = values.get("ranks") or (values.get("rank"),)
        for rank in ranks:
            self._add(
                RawExit(
                    line,
                    rank,
                    local,
                    values.get("pid"),
                    code,
                    time_s,
                    values.get("host") or host,
                    source_kind,
                    kind in ("te.closing", "ds.kill"),
                    attempt,
                    text,
                    task=kind == "srun.exit",
                )
            )

    def take_line(self, text: str, line: int, attempt: int) -> bool:
        """Look for the fields of torchrun's table (``exitcode  : 1 (pid: 7)``); whether it was one."""
        found = _FIELD.match(text)
        if found is None:
            return False
        if found["name"] == "time" or line - self._fields_line > 3:
            self._fields = {}
        self._fields_line = line
        self._fields[found["name"]] = found["value"].strip()
        if found["name"] == "exitcode":
            self._row(text, line, attempt)
        return True

    def _row(self, text: str, line: int, attempt: int) -> None:
        code = _CODE.search(self._fields.get("exitcode", ""))
        if code is None:
            return
        self.torchrun = True
        rank = _RANK.search(self._fields.get("rank", ""))
        self._add(
            RawExit(
                line,
                numbers.rank(rank["rank"]) if rank else None,
                numbers.rank(rank["local"]) if rank else None,
                numbers.integer(code["pid"]),
                numbers.exit_code(code["code"]),
                self._clock.time_of(self._fields.get("time", "")),
                self._fields.get("host") or None,
                "torchelastic",
                False,
                attempt,
                text,
            )
        )

    def _add(self, new: RawExit) -> None:
        if new.pid is None:
            if len(self._others) < MAX_EXITS:
                self._others.append(new)
            else:
                self.dropped += 1
            return
        old = self._by_pid.get((new.attempt, new.pid))
        if old is None:
            if len(self._by_pid) < MAX_EXITS:
                self._by_pid[new.attempt, new.pid] = new
            else:
                self.dropped += 1
            return
        old.rank = old.rank if old.rank is not None else new.rank
        old.local_rank = old.local_rank if old.local_rank is not None else new.local_rank
        old.exit_code = new.exit_code if old.exit_code is None or old.by_launcher else old.exit_code
        old.time_s = old.time_s if old.time_s is not None else new.time_s
        old.host = old.host or new.host
        old.by_launcher = old.by_launcher or new.by_launcher

    def exits(self) -> list[RawExit]:
        """Exits that the log tells of, by line."""
        return sorted([*self._by_pid.values(), *self._others], key=lambda item: (item.line, item.rank or 0))


def _code(kind: str, values: Mapping[str, Any]) -> int | None:
    if "exit_code" in values:
        return _signed_exit_code(values["exit_code"])
    number = values.get("signal_number", values.get("signal"))
    if number is not None:
        return _signal(str(number))
    if kind == "ds.kill":
        return -15
    how = str(values.get("how", "Killed" if kind == "shell.oom" else ""))
    found = _EXITED.search(how)
    if found is not None:
        return _signed_exit_code(numbers.exit_code(found["code"] or found["code2"]))
    return next((code for word, code in _WORDS if word in how), None)


def _signed_exit_code(code: int | None) -> int | None:
    """A signal's number as Python writes it, where a shell adds 128 to it."""
    return 128 - code if code is not None and 128 < code < 160 else code


def _signal(text: str) -> int | None:
    if (number := numbers.exit_code(text)) is not None:
        return -number
    try:
        return -int(signals.Signals[text.rsplit(".", 1)[-1]])
    except KeyError:
        return None
