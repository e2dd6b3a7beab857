"""The one rank that did not give up waiting, and went on writing lines while the others waited: it worked."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unhang.evidence.items import LastLine
from unhang.facts.laggard.work_spanning_timeout import absent_rank
from unhang.facts.logs.last_log_lines import phase_of_line
from unhang.facts.logs.waits_in_logs import LoggedWaits, logged_waits
from unhang.facts.model import Facts
from unhang.findings import Evidence, Phase, shortened
from unhang.knowledge.thresholds import threshold

# Of the wait: a line this far into it is no last word before the stall.
INTO_IT = threshold("active_during_wait.into_it")
SLACK_S = threshold("active_during_wait.slack_s")
_COUNTS = re.compile(r"\d+\s*/\s*\d+|\d ?%")
# Lines of a timer or of somebody who waits say nothing about work; a step with a loss needs the others.
_NO_WORK = re.compile(
    r"heart ?beat|monitor|alive|utili[sz]ation|[Ww]aiting|[Rr]etry|NCCL|\b(?:step|iter\w*|epoch)\b.*\bloss\b"
)


@dataclass(frozen=True, slots=True)
class ActiveDuringWait:
    """``rank`` wrote its last line ``after_s`` into a wait of ``wait_s``; ``counts``: the line counts something."""

    rank: int
    after_s: float
    wait_s: float
    counts: bool
    phase: Phase | None
    evidence: Evidence


def active_during_wait(facts: Facts) -> ActiveDuringWait | None:
    """That rank; None when several may be meant, lines carry no times, or it spoke of data it could not get."""
    logged = logged_waits(facts)
    if logged is None or any(w.partner_gone for w in logged.waits):
        return None
    ended = max((w.ended_s for w in logged.waits if w.ended_s is not None), default=None)
    if logged.began_s is None or ended is None:
        return None
    found = [w for log in facts.logs for line in log.last_lines if (w := _worked(facts, logged, line, ended))]
    return found[0] if len({w.rank for w in found}) == 1 else None


def _worked(facts: Facts, logged: LoggedWaits, line: LastLine, ended_s: float) -> ActiveDuringWait | None:
    rank = line.rank if line.rank is not None else absent_rank(facts, logged)
    if rank is None or rank in logged.rank_set or line.time_s is None or logged.began_s is None:
        return None
    after, wait = line.time_s - logged.began_s, ended_s - logged.began_s
    phase = phase_of_line(line.text)
    if not wait * INTO_IT <= after <= wait + SLACK_S or phase is Phase.DATA or _NO_WORK.search(line.text):
        return None
    counts = _COUNTS.search(line.text) is not None
    if line.rank is None and not counts:
        return None  # a launcher or a collector may have said it
    return ActiveDuringWait(rank, after, wait, counts, phase, Evidence(line.source, shortened(line.text), rank))
