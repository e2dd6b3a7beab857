"""How processes ended, as launchers and schedulers tell it: lines, and torchrun's table of failures."""

from __future__ import annotations

import signal as signals
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from unhang.evidence.items import LogEvent, ProcessExit
from unhang.evidence.logs.content.endings import EndingReader
from unhang.evidence.logs.lines.speakers import SpeakerRanks
from unhang.evidence.logs.lines.timestamps import TimestampReader
from unhang.findings import Source
from unhang.knowledge import numbers
from unhang.knowledge.messages import rank_list
from unhang.late_pattern import late_pattern
from unhang.sentences import shortened

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
_MAPPING = "ds.mapping"
_ON_HOST = late_pattern(r"'([^']{1,253})': \[([\d, ]*)\]")
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


class ExitReader:
    """Collects exits; one process told twice is kept once, with everything known of it."""

    def __init__(self, source: str, clock: TimestampReader) -> None:
        self._source = source
        self.clock = clock
        self._by_pid: dict[tuple[int, int], ProcessExit] = {}
        self._others: list[ProcessExit] = []
        self._fields: dict[str, str] = {}
        self._fields_line = 0
        self.dropped = 0
        self._torchrun = False
        self._ranks_on: dict[str, list[int]] = {}
        """By host, in the order of local ranks, as DeepSpeed's launcher told."""

    @staticmethod
    def hears(kind: str) -> bool:
        """Whether an event of this kind tells of an exit, or of who launches what."""
        return kind in _SOURCE_BY_KIND or kind.startswith("te.") or kind == _MAPPING

    def take_event(self, event: LogEvent, host: str | None) -> None:
        """Read a recognised line of ``host``; lines that tell no exit are passed over."""
        kind, values = event.kind, event.values
        source_kind = _SOURCE_BY_KIND.get(kind)
        if kind.startswith("te."):
            self._torchrun = True
        if kind == _MAPPING:
            hosts = _ON_HOST.findall(str(values.get("mapping", "")))
            self._ranks_on.update((name, list(rank_list(ranks))) for name, ranks in hosts)
        if source_kind is None:
            return
        local = values.get("local_rank")
        if kind == "ds.exit" and (found := _LOCAL_RANK.search(str(values.get("command", "")))) is not None:
            local = numbers.rank(found[1])
        ended = ProcessExit(
            event.source,
            None,
            local,
            values.get("pid"),
            _code(kind, values),
            event.time_s,
            values.get("host") or host,
            source_kind,
            kind in ("te.closing", "ds.kill"),
            event.attempt,
            shortened(event.text, 300),
        )
        for rank in values.get("ranks") or (values.get("rank"),):
            self._add(replace(ended, rank=rank))

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
        self._torchrun = True
        rank = _RANK.search(self._fields.get("rank", ""))
        self._add(
            ProcessExit(
                Source(self._source, line),
                numbers.rank(rank["rank"]) if rank else None,
                numbers.rank(rank["local"]) if rank else None,
                numbers.integer(code["pid"]),
                numbers.exit_code(code["code"]),
                self.clock.time_of(self._fields.get("time", "")),
                self._fields.get("host") or None,
                "torchelastic",
                attempt=attempt,
                text=text,
            )
        )

    def _add(self, new: ProcessExit) -> None:
        if new.pid is None:
            if len(self._others) < MAX_EXITS:
                self._others.append(new)
            else:
                self.dropped += 1
            return
        key = new.attempt, new.pid
        old = self._by_pid.get(key)
        if old is not None:
            self._by_pid[key] = _joined(old, new)
        elif len(self._by_pid) < MAX_EXITS:
            self._by_pid[key] = new
        else:
            self.dropped += 1

    def exits(self, voices: SpeakerRanks, endings: EndingReader, host: str | None) -> Iterator[ProcessExit]:
        """Ends of processes, by line. Local ranks are ranks where one launcher has the whole job; a scheduler's tasks
        are none where they are nodes, or where torchrun starts the ranks."""
        found = sorted([*self._by_pid.values(), *self._others], key=lambda one: (one.source.line or 0, one.rank or 0))
        pids = {one.pid for one in found if one.local_rank is not None or one.terminated_by_launcher} - {None}
        here = endings.holds_all(len(pids))
        for one in found:
            mapped = self._mapped_rank(one)
            rank = one.rank if one.rank is not None or not here else one.local_rank
            rank = rank if mapped is None else mapped
            if one.source_kind == "slurm" and (self._torchrun or voices.labels_are_nodes()):
                rank = None
            if rank is None and one.pid is not None:
                rank = voices.process_rank(one.pid, one.host)
            yield replace(one, rank=rank, host=one.host or host)

    def _mapped_rank(self, one: ProcessExit) -> int | None:
        """Of a process that DeepSpeed started, on the host that its line names or the only one."""
        if one.source_kind != "deepspeed" or one.local_rank is None:
            return None
        alone = next(iter(self._ranks_on.values())) if len(self._ranks_on) == 1 else []
        ranks = self._ranks_on.get(one.host or "", alone)
        return ranks[one.local_rank] if one.local_rank < len(ranks) else None


def _joined(old: ProcessExit, new: ProcessExit) -> ProcessExit:
    """One process told twice."""
    return replace(
        old,
        rank=old.rank if old.rank is not None else new.rank,
        local_rank=old.local_rank if old.local_rank is not None else new.local_rank,
        exit_code=new.exit_code if old.exit_code is None or old.terminated_by_launcher else old.exit_code,
        time_s=old.time_s if old.time_s is not None else new.time_s,
        host=old.host or new.host,
        terminated_by_launcher=old.terminated_by_launcher or new.terminated_by_launcher,
    )


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
