"""The run as it is now, for viewers: one snapshot a second at most, in memory, and only while somebody asks.

A viewer touches ``live.wanted`` in the records folder; for 15 s after that the watcher keeps ``live.json`` beside it up
to date. The last snapshot stays in the run folder. Columns, not objects: one entry a rank in each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from unhang.secrets import tree_without_secrets, without_secrets, words_without_secrets
from unhang.watch import private_files
from unhang.watch.job.job_ranks import JobRank
from unhang.watch.job.wait_detection import RankSample, WaitSnapshot
from unhang.wire.documents.live_state import (
    LIVE_FILE_NAME,
    MAX_GROUPS,
    REQUEST_FILE,
    SCHEMA,
    STATES,
    GroupColumns,
    LiveRun,
    LiveState,
    LiveTotals,
    LiveVerdict,
    LiveWait,
    RankActivity,
    RankColumns,
)
from unhang.wire.documents.run_plan import RunPlan
from unhang.wire.documents.verdict_summary import VerdictSummary
from unhang.wire.record_views import PHASES, RecordView
from unhang.wire.uncaught_exception import exceptions_file

if TYPE_CHECKING:
    from unhang.watch.reporting.run_totals import RunTotals

EVERY_S = 1.0
WANTED_FOR_S = 15.0


class TextIndex:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of ``text``; -1 of an empty one."""
        return self._numbers.setdefault(text, len(self._numbers)) if text else -1

    def texts(self) -> list[str]:
        """All texts, in the order of their numbers."""
        return list(self._numbers)


class SnapshotBuilder:
    """Everything one snapshot is made of; the watcher fills it, :meth:`state` turns it into columns."""

    def __init__(
        self,
        plan: RunPlan,
        folder: Path,
        samples: Mapping[int, RankSample],
        doing: Mapping[int, RankActivity],
        waits_since: Callable[[int, RecordView], int | None],
        *,
        node_of: Mapping[int, str],
        world_size: int | None,
    ) -> None:
        self._plan, self._folder, self._world_size = plan, folder, world_size
        self._looks, self._doing, self._waits_since, self._node_of = samples, doing, waits_since, node_of
        self._nodes, self._labels, self._places = TextIndex(), TextIndex(), TextIndex()

    def state(
        self, wait: WaitSnapshot | None, said: VerdictSummary | None, totals: RunTotals, *, ended: bool = False
    ) -> LiveState:
        """The snapshot. ``said``: the verdict that was printed last, None without one."""
        now_ns = time.monotonic_ns()
        ranks = self._ranks(now_ns)
        attempts = [sample.view.identity.attempt for sample in self._looks.values()]
        nodes = self._nodes.texts()
        return LiveState(
            schema=SCHEMA,
            at_s=round(time.time(), 3),
            ended=ended,
            run=LiveRun(
                command=words_without_secrets(self._plan.command),
                folder=str(self._folder),
                started_s=self._plan.started_s,
                world_size=self._world_size,
                nodes=nodes,
                attempt=max(attempts, default=0),
            ),
            ranks=ranks,
            places=self._places.texts(),
            labels=self._labels.texts(),
            groups=self._groups(),
            standing=_live_wait(wait, said),
            verdict=_live_verdict(said),
            totals=LiveTotals(
                steps=totals.steps,
                step_s=totals.median_step_s,
                slowest=totals.slowest(self._looks),
                by_phase=dict(totals.by_phase),
                findings=list(totals.findings),
            ),
        )

    def _ranks(self, now_ns: int) -> RankColumns:
        columns: list[tuple[int, int, int, int, int, int, int, float, float, float, float]] = []
        for rank in sorted(self._looks):
            view = self._looks[rank].view
            since = self._waits_since(rank, view)
            waits = self._doing.get(rank) is RankActivity.WAITING and since is not None
            columns.append(
                (
                    rank,
                    self._nodes.number(self._node_of.get(rank, "")),
                    STATES.index(self._doing.get(rank, RankActivity.BUSY).value),
                    PHASES.index(view.phase) if view.phase in PHASES else PHASES.index("other"),
                    self._labels.number(view.mark.label if view.mark is not None else ""),
                    self._places.number(f"{view.user.file}:{view.user.line}" if view.user.file else ""),
                    view.steps if view.step_source != "none" else -1,
                    round(view.step_mean_ns / 1e9, 4) if view.step_mean_ns > 0 else -1.0,
                    age_s(view.since_ns, now_ns),
                    age_s(since if waits and since is not None else -1, now_ns),
                    age_s(view.beat_ns, now_ns),
                )
            )
        return RankColumns(*([list(column) for column in zip(*columns, strict=True)] if columns else [[]] * 11))

    def _groups(self) -> list[GroupColumns]:
        found: dict[str, GroupColumns] = {}
        for rank in sorted(self._looks):
            for group in self._looks[rank].view.groups:
                columns = found.get(group.name)
                if columns is None:
                    columns = found[group.name] = GroupColumns(group.name, group.backend, group.size, [], [], [])
                columns.rank.append(rank)
                columns.enqueued.append(group.enqueued)
                columns.completed.append(group.completed)
        largest = sorted(found.values(), key=lambda group: (-len(group.rank), group.name))
        return largest[:MAX_GROUPS]


def age_s(since_ns: int, now_ns: int) -> float:
    """For a column; -1 where there is nothing to tell."""
    return round(max(0, now_ns - since_ns) / 1e9, 1) if since_ns > 0 else -1.0


def _live_wait(wait: WaitSnapshot | None, said: VerdictSummary | None) -> LiveWait | None:
    if wait is None:
        return None
    limit_at_s = said.limit_at_s if said is not None else None
    return LiveWait(
        waiters=list(wait.waiters),
        laggards=list(wait.laggards),
        waited_s=round(wait.waited_s, 1),
        urgent=wait.urgent,
        killed_in_s=round(max(0.0, limit_at_s - time.time()), 1) if limit_at_s is not None else None,
    )


def _live_verdict(said: VerdictSummary | None) -> LiveVerdict | None:
    if said is None or not said.cause:
        return None
    return LiveVerdict(
        level=said.level,
        status=said.status,
        cause=said.cause,
        certainty=said.certainty,
        ranks=list(said.ranks),
        where=said.where,
        sentence=said.sentence,
        parts=said.sentence_parts,
    )


class LiveFile:
    """``live.json`` of one run."""

    def __init__(self, records: Path, folder: Path, *, always: bool = False) -> None:
        """``always``: somebody asks all the time (metrics)."""
        self._records, self._folder, self._always = records, folder, always
        self._written = float("-inf")

    def due(self) -> bool:
        """Whether a snapshot is wanted now."""
        if time.monotonic() - self._written < EVERY_S:
            return False
        return self.wanted()

    def wanted(self) -> bool:
        """Whether somebody watches the run."""
        return self._always or _asked(self._records / REQUEST_FILE)

    def write(self, state: LiveState) -> None:
        """Keep ``state``; a full disk is not worth an error."""
        self._written = time.monotonic()
        with suppress(OSError):
            private_files.write_atomically(self._records / LIVE_FILE_NAME, _document(state))

    def write_last(self, state: LiveState) -> None:
        """The last snapshot, which stays."""
        self.write(state)
        with suppress(OSError):
            private_files.write_atomically(self._folder / LIVE_FILE_NAME, _document(state) + b"\n")


_clean = lru_cache(maxsize=4096)(without_secrets)
"""Places and labels are the same ones from one snapshot to the next."""


def _document(state: LiveState) -> bytes:
    """``state`` as it is kept: texts that are the program's own without secrets."""
    kept = msgspec.structs.replace(
        state,
        places=[_clean(place) for place in state.places],
        labels=[_clean(label) for label in state.labels],
        groups=[msgspec.structs.replace(group, name=_clean(group.name)) for group in state.groups],
        verdict=None if state.verdict is None else _kept(state.verdict),
        totals=msgspec.structs.replace(
            state.totals,
            by_phase={_clean(label): spent for label, spent in state.totals.by_phase.items()},
            findings=[_clean(finding) for finding in state.totals.findings],
        ),
    )
    return msgspec.json.encode(kept)


def _kept(told: LiveVerdict) -> LiveVerdict:
    return msgspec.structs.replace(
        told, sentence=_clean(told.sentence), where=_clean(told.where), parts=tree_without_secrets(told.parts)
    )


def _asked(path: Path) -> bool:
    with suppress(OSError):
        return time.time() - path.stat().st_mtime < WANTED_FOR_S
    return False


def with_failed_exits(
    doing: Mapping[int, RankActivity], members: Mapping[int, JobRank], folder: Path
) -> dict[int, RankActivity]:
    """``doing``; who shut down in order, but because of an exception or with an exit code, has ended badly."""
    return {
        rank: RankActivity.DEAD
        if what is RankActivity.OVER and rank in members and _failed(members[rank], folder)
        else what
        for rank, what in doing.items()
    }


def _failed(member: JobRank, folder: Path) -> bool:
    if member.ended_ns is None or member.exit_code is not None:
        return member.exit_code not in (0, None)
    return exceptions_file(folder, member.rank).exists()


def hosts_of(members: Mapping[int, JobRank]) -> dict[int, str]:
    """On which host each rank runs, where it has told."""
    return {rank: member.registration.host for rank, member in members.items() if member.registration is not None}
