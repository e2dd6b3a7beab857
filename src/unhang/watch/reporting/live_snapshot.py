"""The run as it is now, for viewers: one snapshot a second at most, in memory, and only while somebody asks.

A viewer touches ``live.wanted`` in the records folder; for 15 s after that the watcher keeps ``live.json`` beside it up
to date. The last snapshot stays in the run folder. Columns, not objects: one entry a rank in each.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from unhang.secrets import tree_without_secrets, without_secrets, words_without_secrets
from unhang.watch import private_files
from unhang.watch.job.job_ranks import JobRank
from unhang.watch.job.wait_detection import WaitSnapshot
from unhang.watch.nodes.live_columns import NodeColumns, with_ranks
from unhang.watch.nodes.rank_digest import NodeRanks, columns_of
from unhang.wire.documents.live_state import (
    LIVE_FILE_NAME,
    REQUEST_FILE,
    SCHEMA,
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
from unhang.wire.uncaught_exception import exceptions_file

if TYPE_CHECKING:
    from unhang.watch.pace.pace_record import RunTotals

EVERY_S = 1.0
WANTED_FOR_S = 15.0


def snapshot_of(
    plan: RunPlan,
    folder: Path,
    ranks: NodeRanks,
    *,
    node_of: Mapping[int, str],
    world_size: int | None,
    wait: WaitSnapshot | None,
    said: VerdictSummary | None,
    totals: RunTotals,
    ended: bool = False,
) -> LiveState:
    """The run at this moment, as far as this node sees it. ``node_of``: the host of each rank; ``said``: the verdict
    that was printed last, None without one."""
    views = {rank: sample.view for rank, sample in sorted(ranks.samples.items())}
    state = LiveState(
        schema=SCHEMA,
        at_s=round(time.time(), 3),
        ended=ended,
        run=LiveRun(
            command=words_without_secrets(plan.command),
            folder=str(folder),
            started_s=plan.started_s,
            world_size=world_size,
            nodes=[],
            attempt=max((view.identity.attempt for view in views.values()), default=0),
        ),
        ranks=RankColumns(*[[] for _ in RankColumns.__struct_fields__]),
        places=[],
        labels=[],
        groups=[],
        standing=_live_wait(wait, said),
        verdict=_live_verdict(said),
        totals=LiveTotals(
            steps=totals.steps,
            step_s=totals.median_step_s,
            slowest=totals.slowest(views),
            by_phase=dict(totals.by_phase),
            findings=list(totals.findings),
        ),
    )
    columns = columns_of(ranks, most=None, most_groups=None)
    return with_ranks(state, [NodeColumns(columns, [node_of.get(rank, "") for rank in views], time.monotonic_ns())])


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
