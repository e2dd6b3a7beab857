"""A monitor that gave up on another process of the job (a health check, a probe) and had it ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from unhang.evidence.items import LogEvent
from unhang.facts.evidence_quotes import quote_line
from unhang.facts.logs.log_statements import field_text, first_attempt
from unhang.facts.model import Facts, once
from unhang.findings import Evidence
from unhang.knowledge.thresholds import threshold
from unhang.knowledge.worlds.roles import Role, program_row

UNANSWERED, ENDED = "unanswered", "ended-by-monitor"
"""What the messages of monitors say, and those of the end that they bring about."""
_WATCHED: tuple[Role, ...] = ("server", "rollout", "reward", "reference")
WORKED_BEFORE_S = threshold("given_up.worked_before")


@dataclass(frozen=True, slots=True)
class GivenUp:
    """``checks``: the lines of the monitor, of a process called ``target`` that had ``limit_s`` to answer; where a line
    does not tell them they are empty and None. ``worked``: what processes of that kind printed meanwhile of their work;
    None: nothing shows that they worked."""

    checks: tuple[LogEvent, ...]
    ended: LogEvent
    target: str
    limit_s: float | None
    worked: Evidence | None


@once
def given_up(facts: Facts) -> GivenUp | None:
    """The first such end; None where nobody was ended after a check that got no answer."""
    checks = first_attempt(facts.events_where(lambda row: row.says == UNANSWERED))
    ends = first_attempt(facts.events_where(lambda row: row.says == ENDED))
    ended = next((end for end in ends if any(_is_before(check, end) for check in checks)), None)
    if ended is None:
        return None
    before = tuple(check for check in checks if _is_before(check, ended))
    limits = [limit for check in before if isinstance(limit := check.values.get("limit_s"), int | float)]
    target = next((name for check in before if (name := field_text(check, "target"))), "")
    return GivenUp(before, ended, target, max(limits, default=None), next(_work_until(facts, before[-1]), None))


def _is_before(one: LogEvent, other: LogEvent) -> bool:
    if one.source.path == other.source.path:
        return (one.source.line or 0) < (other.source.line or 0)
    return one.time_s is not None and other.time_s is not None and one.time_s <= other.time_s


def _work_until(facts: Facts, check: LogEvent) -> Iterator[Evidence]:
    """Lines of watched programs shortly before it, the latest first."""
    for log in facts.logs:
        for line in reversed(log.said):
            row = program_row(line.program) if line.program else None
            if row is None or row.role not in _WATCHED or line.time_s is None or check.time_s is None:
                continue
            if 0 <= check.time_s - line.time_s < WORKED_BEFORE_S:
                yield quote_line(line)
