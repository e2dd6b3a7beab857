"""A run that is over, as it was when it ended: what each rank did last, and who ended whom.

When somebody presses Ctrl-C, or one rank takes the others with it, every process ends badly; that says nothing of the
stall before. So the ranks are shown as their series has them at the stall, or when the first process ended.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from unhang.facts.endings.crashes import signal_name
from unhang.report.layout.durations import duration
from unhang.report.text_serialization import text_to_json
from unhang.sentences import Text, say
from unhang.view.reading import ENDED_SOMEHOW, RunReading, read_run
from unhang.view.regular_files import read_json_as
from unhang.view.series_reading import WAITS, RankRows, SeriesRow
from unhang.wire.documents.bundle import BundleManifest, RankProcess
from unhang.wire.documents.live_state import STATES, LiveState, LiveWait, RankActivity
from unhang.wire.uncaught_exception import UncaughtException, exceptions_file, read_exceptions

MAX_RANKS = 4_096
"""Of so many the exceptions are read."""
INTERRUPTED = "KeyboardInterrupt"
_NUMBERS = {doing: STATES.index(doing.value) for doing in RankActivity}
_DEAD, _OVER = _NUMBERS[RankActivity.DEAD], _NUMBERS[RankActivity.OVER]
_NO_PROCESS = RankProcess(rank=0)


@dataclass(frozen=True, slots=True)
class RankEnd:
    """How a rank's process ended: an exit code (a signal is negative), or an exception that nobody caught."""

    time_s: float
    rank: int
    code: int | None = None
    exception: str = ""
    by_launcher: bool = False

    @property
    def interrupted(self) -> bool:
        """By Ctrl-C."""
        return self.code == -signal.SIGINT or self.exception == INTERRUPTED


@dataclass(frozen=True, slots=True)
class _Remains:
    """What the folder of a run that is over holds of its end."""

    stalled_since_s: float | None
    shown_s: float
    ends: tuple[RankEnd, ...]
    processes: dict[int, RankProcess]
    rows: dict[int, SeriesRow]
    sites: list[str]


def read_with_its_end(folder: Path) -> RunReading:
    """As :func:`read_run`; of a run that is over, how the ranks stood and what ended them.

    Raises:
        UsageError: it is not the folder of a run.
    """
    reading = read_run(folder)
    if reading.live or reading.state is None:
        return reading
    remains, state = _remains(folder, reading.state.at_s, tuple(reading.state.ranks.rank)), reading.state
    if _DEAD in state.ranks.state and remains.rows and (state.verdict is not None or remains.ends):
        state = _as_they_stood(state, remains)
    told = [(str(text), text_to_json(text)) for text in _ending(reading.state, state, remains)]
    return RunReading(folder, False, state, reading.because, tuple(told))


@lru_cache(maxsize=4)
def _remains(folder: Path, at_s: float, ranks: tuple[int, ...]) -> _Remains:
    """Read once: nothing changes any more."""
    manifest = read_json_as(folder / "bundle.json", BundleManifest)
    processes = {process.rank: process for process in manifest.processes} if manifest is not None else {}
    ends = tuple(sorted(_ends(folder, processes, ranks), key=lambda end: (end.time_s, end.rank)))
    looked_s = manifest.taken_s if manifest is not None and manifest.live else None
    shown_s = min((looked_s or at_s, *(end.time_s for end in ends)))
    series = RankRows(folder)
    series.read()
    rows = {row.rank: row for row in series.rows if row.mix and row.end_s - row.for_s < shown_s}
    since_s = manifest.stalled_since_s if manifest is not None else None
    return _Remains(since_s, shown_s, ends, processes, rows, series.sites)


def _ends(folder: Path, processes: dict[int, RankProcess], ranks: tuple[int, ...]) -> Iterator[RankEnd]:
    """A process that raised is on its way out from then on, however long its interpreter takes."""
    for rank in ranks[:MAX_RANKS]:
        process, raised = processes.get(rank, _NO_PROCESS), _raised(folder, rank)
        if process.ended_s is None and raised is not None:
            yield RankEnd(raised.time_s, rank, exception=raised.type)
        elif process.ended_s is not None and process.exit_code:
            time_s, name = (raised.time_s, raised.type) if raised is not None else (process.ended_s, "")
            yield RankEnd(time_s, rank, process.exit_code, name, process.terminated_by_launcher)


def _raised(folder: Path, rank: int) -> UncaughtException | None:
    for place in (folder, folder / ".unhang" / "after-abort"):
        with suppress(OSError):
            if exceptions_file(place, rank).is_file():
                return next(
                    (one for one in read_exceptions(place, rank) if one.ends_the_process and _can_be(one)), None
                )
    return None


def _can_be(raised: UncaughtException) -> bool:
    """The file may be anybody's."""
    return isinstance(raised.time_s, int | float) and 0 < raised.time_s < 1e11 and isinstance(raised.type, str)


def _as_they_stood(state: LiveState, remains: _Remains) -> LiveState:
    """Who crashed has ended badly; the others did what their series says, those too that were seen last
    as they came to their end in order, after an exception."""
    ranks, told = state.ranks, state.verdict
    crashed = set(told.ranks) if told is not None and told.status == "crash" else set()
    columns = {name: list(getattr(ranks, name)) for name in ("state", "phase", "place", "step", "waits_s")}
    places = {site: len(state.places) + number for number, site in enumerate(remains.sites)}
    blamed, raised = list(told.ranks) if told is not None else [], {end.rank for end in remains.ends}
    waiters = []
    for at, rank in enumerate(ranks.rank):
        row = remains.rows.get(rank)
        if row is None or not (ranks.state[at] == _DEAD or (ranks.state[at] == _OVER and rank in raised)):
            continue
        columns["phase"][at] = row.most % WAITS
        columns["place"][at] = places.get(remains.sites[row.site], -1) if row.site >= 0 else -1
        columns["step"][at] = row.step or ranks.step[at]
        if rank in crashed:
            continue
        waits = row.most >= WAITS
        columns["state"][at] = _NUMBERS[RankActivity.WAITING if waits else _doing(remains.processes.get(rank))]
        if waits and remains.stalled_since_s is not None:
            columns["waits_s"][at] = max(0.0, _end_s(remains, row) - remains.stalled_since_s)
        waiters += [rank] if waits and rank not in blamed else []
    waited_s = max(columns["waits_s"], default=-1.0)
    return msgspec.structs.replace(
        state,
        ranks=msgspec.structs.replace(ranks, **columns),
        places=[*state.places, *(site.rpartition(" ")[0] or site for site in remains.sites)],
        standing=LiveWait(waiters, blamed, waited_s, urgent=False) if waiters and blamed and waited_s >= 1 else None,
    )


def _end_s(remains: _Remains, row: SeriesRow) -> float:
    return remains.ends[0].time_s if remains.ends else row.end_s


def _doing(process: RankProcess | None) -> RankActivity:
    if process is None:
        return RankActivity.BUSY
    if process.state == "T":
        return RankActivity.STOPPED
    if process.beats is False:
        return RankActivity.SILENT
    return RankActivity.IDLE if process.idle else RankActivity.BUSY


def _ending(last: LiveState, shown: LiveState, remains: _Remains) -> Iterator[Text]:
    """Who had waited for whom, who ended whom, and what the ranks are shown at."""
    standing = shown.standing
    if standing is not None:
        yield say(
            "{waiters:who} had waited {time} for {laggards:who}.",
            waiters=tuple(standing.waiters),
            laggards=tuple(standing.laggards),
            time=duration(standing.waited_s),
        )
    yield from _who_ended_whom(last, remains.ends)
    if shown is not last:
        stall = standing is not None
        yield (
            say("The ranks are shown as they were during the stall.")
            if stall
            else say("The ranks are shown as they were when the first one ended.")
        )


def _who_ended_whom(last: LiveState, ends: tuple[RankEnd, ...]) -> Iterator[Text]:
    own = [end for end in ends if not end.by_launcher]
    if set(last.ranks.state) == {_NUMBERS[RankActivity.OVER]}:
        yield say("All ranks ended normally.")
    elif not own:
        yield ENDED_SOMEHOW
    elif all(end.interrupted for end in own):
        yield say("SIGINT (Ctrl-C) ended the job.")
    else:
        yield _first(own[0])
        ended = tuple(end.rank for end in ends if end.by_launcher)
        if ended:
            yield say("The launcher then ended {ranks:who}.", ranks=ended)


def _first(end: RankEnd) -> Text:
    who = (end.rank,)
    if end.exception:  # the code that follows from it says less
        return say("{ranks:who} ended first, with {exception}.", ranks=who, exception=end.exception)
    if end.code is not None and end.code < 0:
        return say("{ranks:who} ended first, by {signal}.", ranks=who, signal=signal_name(-end.code))
    return say("{ranks:who} ended first, with exit code {code}.", ranks=who, code=end.code)
