"""Now and then, in a job that moves, compare what its ranks called: calls that differ and stop nothing spoil results.

The dumps have no stacks (about 14 ms a rank at 2,000 entries); only where something differs one with stacks follows,
to name the lines. The pauses grow: 3 s into training, then after 20 s, 1, 3, 9 and 27 minutes, then every hour.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from unhang.watch import private_files
from unhang.watch.control_file import open_control
from unhang.watch.pace.call_digests import CallDigest, digest_calls, groups_in
from unhang.watch.sampling import earlier_evidence, temporary_dumps
from unhang.wire.record import read_records

if TYPE_CHECKING:
    from unhang.facts.model import CallMismatch, PendingCall

FIRST_AFTER_S, SECOND_AFTER_S, TIMES, MAX_PAUSE_S = 3.0, 20.0, 3.0, 3600.0
MIN_COLLECTIVES = 10
DUMP_LIMIT_S, STACKS_LIMIT_S = 3.0, 8.0
POLL_S = 0.05
DIGESTS_FILE, DIGESTS_VALID_S = "prints.json", 30.0
"""Other nodes are told so long; their comparisons come at about the same time."""
MAX_GROUPS = 16
MAX_RANKS_TOLD = 256


@dataclass(slots=True)
class CallDriftWatch:
    """Asks for dumps in the life of a job; says once what it found. ``folder`` is the run folder."""

    records: Path
    folder: Path
    pid: int | None = None
    checks: int = 0
    _next_s: float = 0.0
    _told: bool = False
    _call_digests: list[CallDigest] = field(default_factory=list)
    _call_digests_s: float = float("-inf")

    def tick(self, max_collectives: int) -> bytes | None:
        """Called at every tick in which nobody waits long; ``machine/compared.json`` when something was found."""
        now_s = time.monotonic()
        if self.pid is not None:
            return self._finished()
        if self._told or max_collectives < MIN_COLLECTIVES:
            return None
        if not self._next_s:
            self._next_s = now_s + FIRST_AFTER_S
        if now_s < self._next_s:
            return None
        self._next_s = now_s + pause_after(self.checks)
        self.checks += 1
        self._start()
        return None

    def _start(self) -> None:
        self._answer.unlink(missing_ok=True)
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                compare_calls(self.records, self.folder, self._answer)
            except BaseException:  # noqa: BLE001 - the process edge
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(0)

    def _finished(self) -> bytes | None:
        assert self.pid is not None
        if not os.waitpid(self.pid, os.WNOHANG)[0]:
            return None
        self.pid = None
        with suppress(OSError, ValueError):
            self._call_digests = [tuple(one) for one in json.loads(self._answer.with_name(DIGESTS_FILE).read_bytes())]
            self._call_digests_s = time.monotonic()
        with suppress(OSError):
            found = self._answer.read_bytes()
            self._told = True
            return found
        return None

    @property
    def call_digests(self) -> list[CallDigest]:
        """What our ranks called at the comparison that was made just now, for other nodes; else empty."""
        return self._call_digests if time.monotonic() - self._call_digests_s < DIGESTS_VALID_S else []

    def try_again(self) -> None:
        """What was found came to nothing, the job was busy otherwise: compare again when it is time."""
        self._told = False

    def end(self) -> None:
        """Stop comparing now: a sample is about to begin, or the job is over. It is tried again later."""
        if self.pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.pid = None
        earlier_evidence.restore(self.folder)

    @property
    def _answer(self) -> Path:
        return self.folder / ".unhang" / "compared.json"


def pause_after(checks: int) -> float:
    """Seconds to the next comparison when so many were begun before the last one."""
    return min(SECOND_AFTER_S * TIMES ** min(checks, 10), MAX_PAUSE_S)


def compare_calls(records: Path, folder: Path, answer: Path) -> None:
    """Take a dump of every rank and compare them; write ``answer`` only where calls differ. Leaves no dump behind."""
    earlier_evidence.set_dumps_aside(folder)
    read: dict[Path, int] = {}
    try:
        _ask(records, stacks=False, limit_s=DUMP_LIMIT_S)
        read = temporary_dumps.dump_times(folder / "dumps")
        private_files.write_atomically(
            answer.with_name(DIGESTS_FILE), json.dumps(digest_calls(folder / "dumps")).encode()
        )
        found = find_disagreements(folder / "dumps")
        if not found:
            return
        _ask(records, stacks=True, limit_s=STACKS_LIMIT_S)
        read = temporary_dumps.dump_times(folder / "dumps")
        with_lines = {call.group: call for call in find_disagreements(folder / "dumps")}
        found = tuple(with_lines.get(call.group, call) for call in found)
        private_files.write_atomically(answer, comparison_document(found))
    finally:
        temporary_dumps.remove_unchanged(read)
        earlier_evidence.restore(folder)


def find_disagreements(*dumps: Path) -> tuple[CallMismatch, ...]:
    """What the ranks called differently, and survived, as their dumps in these folders tell."""
    from unhang.facts.alignment.nonfatal_mismatch import find_nonfatal_mismatches

    groups, chosen = groups_in(dumps)
    return find_nonfatal_mismatches(groups, chosen) if len(chosen) > 1 else ()


def comparison_document(found: tuple[CallMismatch, ...]) -> bytes:
    """``machine/compared.json``."""
    groups = [
        {
            "group": one.group,
            "position": one.position,
            "times": one.times,
            "aligned": one.records_align,
            "calls": [_call(rank, call) for rank, call in _some(one.pending)],
        }
        for one in found[:MAX_GROUPS]
    ]
    return json.dumps({"schema": "unhang.compared/1", "groups": groups}).encode() + b"\n"


def _some(pending: Mapping[int, PendingCall]) -> list[tuple[int, PendingCall]]:
    """Of many ranks those that stand out, and as many of the others."""
    cohorts: dict[object, list[int]] = {}
    for rank in sorted(pending):
        cohorts.setdefault(pending[rank].signature, []).append(rank)
    each = MAX_RANKS_TOLD // max(len(cohorts), 1) or 1
    kept = [rank for ranks in sorted(cohorts.values(), key=len) for rank in ranks[:each]][:MAX_RANKS_TOLD]
    return [(rank, pending[rank]) for rank in sorted(kept)]


def _call(rank: int, call: PendingCall) -> dict[str, object]:
    signature = call.signature
    assert signature is not None
    return {
        "rank": rank,
        "operation": signature.operation,
        "input_sizes": signature.input_sizes,
        "output_sizes": signature.output_sizes,
        "input_dtypes": signature.input_dtypes,
        "output_dtypes": signature.output_dtypes,
        "frames": [(frame.file, frame.line or 0, frame.function) for frame in call.stack[:32]],
    }


def _ask(records: Path, *, stacks: bool, limit_s: float) -> None:
    """Ask every rank for its dump and wait for those that answer."""
    control = open_control(records)
    if control is None:
        return
    number = control.ask_stacks() if stacks else control.ask_dump()
    control.close()
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        views = [v for v in read_records(records).values() if not (v.closed or v.ended) and v.age_s() < 2.0]
        if all((view.stacks_served if stacks else view.dump_served) >= number for view in views):
            return
        time.sleep(POLL_S)
