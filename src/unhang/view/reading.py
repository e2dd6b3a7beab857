"""Read the state of a run: live from the memory of the machine it runs on, or the last one from its run folder."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from unhang.errors import UsageError
from unhang.sentences import Text, say
from unhang.view.regular_files import read_json_as, read_limited
from unhang.watch.nodes.transport.node_discovery import node_name
from unhang.wire.documents.document import DECODE_ERRORS, schema_of
from unhang.wire.documents.live_state import LIVE_FILE_NAME, REQUEST_FILE, LiveState
from unhang.wire.documents.run_plan import RUN_SCHEMA, RunPlan

MAX_BYTES = 64 << 20
MAX_PLAN = 16 << 20
_KIND = RUN_SCHEMA.partition("/")[0]
JUST_BEGUN = say("the run has just started: no rank has been seen yet")
ENDED_SOMEHOW = say("The run is over; how it ended was not recorded.")
NO_LAST_STATE = say(
    "the run has no final state: its watcher was killed or is an older version; unhang diagnose reads the folder"
)


CarriedText = tuple[str, dict[str, Any]]
"""A sentence in English, and as ``report/text_serialization.py`` carries it."""


@dataclass(frozen=True, slots=True)
class RunReading:
    """What was read. ``live``: the run goes on; ``state`` is None where nothing tells (``because`` says why);
    ``ended``: of a run that is over, what is known of its end; ``url``: where ``folder`` is a copy from."""

    folder: Path
    live: bool
    state: LiveState | None
    because: Text | None = None
    ended: tuple[CarriedText, ...] = ()
    url: str = ""

    @property
    def name(self) -> str:
        """What the user calls its folder."""
        return self.url or str(self.folder)


class SharedReading(msgspec.Struct):
    """A reading for another machine: what ``/live.json`` answers."""

    live: bool
    because: str
    folder: str
    state: LiveState | None
    ended: list[CarriedText] = []


def latest_run(place: Path = Path("unhang-runs")) -> Path:
    """The newest run folder in ``place``; a run of several nodes has one below for each.

    Raises:
        UsageError: there is none.
    """
    newest = _newest(place, "*/run.json", "*/*/run.json")
    if newest is None:
        raise UsageError(
            f"no run folder of unhang run in {place}",
            next_step="unhang view DIR, with the folder that unhang run printed",
        )
    return newest


def run_in(folder: Path) -> Path:
    """``folder``, or where it only holds the folders of several nodes the one of this machine, else the newest."""
    if (folder / "run.json").exists():
        return folder
    own = folder / node_name(os.environ)
    return own if (own / "run.json").exists() else _newest(folder, "*/run.json") or folder


def _newest(place: Path, *patterns: str) -> Path | None:
    runs: list[tuple[float, Path]] = []
    for path in (path for pattern in patterns for path in place.glob(pattern)):
        with suppress(OSError):
            runs.append((path.stat().st_mtime, path.parent))
    return max(runs)[1] if runs else None


def read_run(folder: Path) -> RunReading:
    """The state of the run in ``folder`` as it is now. Asks the watcher to keep it up to date for 15 s.

    Raises:
        UsageError: it is not the folder of a run.
    """
    plan = _plan(folder)
    records = Path(plan.records or folder)
    _ask(records)
    live = _state(records / LIVE_FILE_NAME)
    if live is not None and not live.ended:
        return RunReading(folder, True, live)
    last = live or _state(folder / LIVE_FILE_NAME)
    if last is not None:
        return RunReading(folder, False, last)
    if (records / "control").exists():
        return RunReading(folder, True, None, JUST_BEGUN)
    return RunReading(folder, False, None, NO_LAST_STATE)


def _plan(folder: Path) -> RunPlan:
    try:
        raw = read_limited(folder / "run.json", MAX_PLAN)
        kind, plan = schema_of(raw).partition("/")[0], msgspec.json.decode(raw, type=RunPlan)
    except OSError as error:
        raise UsageError(
            f"{folder} is not a run folder ({error.strerror})", next_step="unhang diagnose reads other evidence"
        ) from error
    except DECODE_ERRORS as error:
        raise UsageError(f"{folder}/run.json is incomplete or not a run file") from error
    if kind != _KIND:
        raise UsageError(f"{folder}/run.json is incomplete or not a run file")
    return plan


def _ask(records: Path) -> None:
    """Only where the records are there, and ours."""
    with suppress(OSError):
        if (records / "control").exists():
            os.close(os.open(records / REQUEST_FILE, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
            os.utime(records / REQUEST_FILE)


def _state(path: Path) -> LiveState | None:
    state = read_json_as(path, LiveState, MAX_BYTES)
    return state if state is not None and state.is_consistent() else None
