"""Which rank it was, where the finding itself cannot tell: the one that is left when the others are accounted for."""

from __future__ import annotations

from dataclasses import replace

from unhang.facts.endings.reporting_ranks import is_whole_job, ranks_named, reporting_ranks
from unhang.facts.laggard.work_in_lines import absent_rank
from unhang.facts.logs.log_statements import events_stating
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import Facts
from unhang.findings import Cause, Finding, Grade, Verdict
from unhang.knowledge.reasoning_rows import causes_that
from unhang.sentences import Text, say

_MAX_CARDS = 16
"""Of one machine."""


def name_remaining_rank(facts: Facts, verdict: Verdict) -> Verdict:
    """Names the rank that is left when all others are accounted for, and what it was left by, where the first finding
    lies with one rank and names none.
    """
    first = verdict.findings[0] if verdict.findings else None
    if first is None or (first.ranks and not is_whole_job(facts, first.ranks)):
        return verdict
    # What usually lies behind a line is not what the line is about.
    who = ranks_named if first.ranks or first.grade is Grade.BASE_RATE else reporting_ranks
    told = (
        who(facts, first.evidence) if first.cause in causes_that("of-one-rank", "of-some-ranks", "of-a-speaker") else ()
    )
    if told and not is_whole_job(facts, told):
        return verdict.led_by(replace(first, ranks=told))
    if first.ranks or first.cause not in causes_that("of-one-rank", "of-the-absent"):
        return verdict
    left = _remaining_rank(facts) or _by_its_card(facts, first) or _main_process(facts, first)
    if left is None:
        return verdict
    rank, because = left
    reasons = () if first.summary.values.get("ranks") == (rank,) else (because,)
    return verdict.led_by(replace(first, ranks=(rank,), because=(*first.because, *reasons)))


def _remaining_rank(facts: Facts) -> tuple[int, Text] | None:
    logged = logged_waits(facts)
    rank = absent_rank(facts, logged)
    if facts.all_joined_stalls or logged is None or rank is None:
        return None
    if len(logged.ranks) < 2 and (facts.world_size or len(facts.ranks_seen)) != 2:
        return None
    silent = set(range(max(logged.ranks, default=0))) - logged.rank_set
    if silent - {rank} and not any(wait.awaited == rank for wait in logged.waits):
        return None  # several did not report: nothing says that it is this one
    return rank, say("rank {rank} reported no timeout", rank=rank)


def _by_its_card(facts: Facts, finding: Finding) -> tuple[int, Text] | None:
    """On one machine card and rank have the same number unless somebody mapped them otherwise; a process that sees only
    its own card calls it 0."""
    if finding.cause is not Cause.GPU_OOM or len({known.host for known in facts.ranks.values() if known.host}) > 1:
        return None
    named = {event.values.get("device") for event in events_stating(facts, "oom")} - {None}
    card = named.pop() if len(named) == 1 else None
    if not isinstance(card, int) or card == 0 or card >= (facts.world_size or _MAX_CARDS):
        return None
    return card, say("its line names GPU {card}, which on one machine is rank {card}'s", card=card)


def _main_process(facts: Facts, finding: Finding) -> tuple[int, Text] | None:
    """Work that one process shows a bar of is the main process' by the habit of all libraries."""
    logged = logged_waits(facts)
    if finding.cause is not Cause.SINGLE_RANK_WORK or (logged is not None and 0 in logged.rank_set):
        return None
    return 0, say("progress bars and messages of work done by one process alone come from the main process")
