"""unknown: a failure that somebody states in words: an exception, a library, a launcher, a pasted output.

What happens: a process says what failed, in words that no table of messages knows: `Network is unreachable`, `host not
found`, `the GPU is lost`.
Why it hangs: it ends or never gets there, and the others wait for it.
Example: `ValueError: host not found: Name or service not known` on the workers while the master's pod is created.
Fix: what the line names; the cause of the finding is that of the words, not `unknown`.
Certain when: an exception names its cause itself, and its rank is known.
Possible when: only words of failure in general hint at a cause.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import hosts_of
from unhang.facts.endings.stated_failures import StatedFailure, has_failed, leading_failures, stated_failures
from unhang.facts.model import Facts
from unhang.findings import Cause, Grade
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.sentences import Text, message_of_line

CAUSE = Cause.UNKNOWN
tell = Sentences("causes/unknown.toml")
MAX_FAILURES = 2
SUMMARY_CHARS = 120


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """The first failure of each cause that is stated, else what the words of the first one hint at."""
    for failure in leading_failures(facts)[:MAX_FAILURES]:
        yield _found(facts, failure)


def _found(facts: Facts, failure: StatedFailure) -> DetectorResult:
    stated = failure.names_cause and (failure.is_exception or has_failed(facts))
    ranks = () if failure.rank is None else (failure.rank,)
    # whether it came before what others say can be told
    is_first = len(facts.logs) == 1 or failure.time_s is not None
    return make_signal(
        Grade.STATED if stated else Grade.WORDS,
        _summary(failure, ranks, stated=stated),
        whole=failure.raised and failure.rank is not None and failure.also is None and is_first,
        cause=failure.cause,
        ranks=ranks,
        nodes=hosts_of(facts, ranks) or ((failure.host,) if failure.host else ()),
        where=failure.where,
        because=tuple(_because(facts, failure)),
        evidence=(failure.evidence,),
        remedies=(remedy("fix-stated-failure"),),
    )


def _summary(failure: StatedFailure, ranks: tuple[int, ...], *, stated: bool) -> Text:
    words = message_of_line(failure.evidence.text.strip(), SUMMARY_CHARS)
    if not stated:
        return tell("words-hint", words=words)
    if ranks:
        return tell("says-failed", ranks=ranks, words=words)
    return tell("process-says", words=words)


def _because(facts: Facts, failure: StatedFailure) -> Iterator[Text]:
    echoes = sum(other.elsewhere for other in stated_failures(facts))
    if echoes:
        yield tell("points-elsewhere", count=echoes)
    if failure.also is not None:
        yield tell("also-said-of", other=failure.also.value)
