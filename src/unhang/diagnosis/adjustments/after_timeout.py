"""What ended when ranks had already waited in vain follows from the stall, and did not start it."""

from __future__ import annotations

from dataclasses import replace

from unhang.facts.endings.crashes import Crash, crashes_after_timeout, first_timeouts, signal_name
from unhang.facts.model import Facts
from unhang.findings import Cause, Consequence, Finding, Severity
from unhang.sentences import Text, say


def note_late_ends(facts: Facts, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """``findings``, the first with what ended only after the limit had passed as its consequence."""
    late = crashes_after_timeout(facts)
    if not late or not findings or findings[0].severity is Severity.NOTE:
        return findings
    first = findings[0]
    alike: dict[str, list[Crash]] = {}
    for crash in late:
        alike.setdefault(_how(crash), []).append(crash)
    ends = tuple(_consequence(facts, how, crashes) for how, crashes in alike.items())
    return (replace(first, consequences=(*first.consequences, *ends)), *findings[1:])


def _how(crash: Crash) -> str:
    if crash.signal is not None:
        return signal_name(crash.signal)
    return crash.exception or f"exit code {crash.exit_code}"


def _consequence(facts: Facts, how: str, crashes: list[Crash]) -> Consequence:
    ranks = tuple(sorted({c.rank for c in crashes if c.rank is not None}))
    return Consequence(Cause.RANK_CRASHED, ranks, len(crashes), _summary(facts, how, crashes[0], ranks))


def _summary(facts: Facts, how: str, first: Crash, ranks: tuple[int, ...]) -> Text:
    past_s = first_timeouts(facts).after_s(first.time_s, first.attempt)
    if past_s is None or past_s <= 0:
        if not ranks:
            return say("a process ended with {how} after a limit had passed: the stall was there before", how=how)
        return say(
            "{ranks:who} ended with {how} after a limit had passed: the stall was there before", ranks=ranks, how=how
        )
    after_s = round(past_s)
    if not ranks:
        return say(
            "a process ended with {how} {after} s after the limit had passed: the stall was there before",
            how=how,
            after=after_s,
        )
    return say(
        "{ranks:who} ended with {how} {after} s after the limit had passed: the stall was there before",
        ranks=ranks,
        how=how,
        after=after_s,
    )
