"""Background to what nothing explains well: the causes that similar logs had, and what would settle each.

Shares are counted, not judged: how often known incidents that looked like this had which cause
(``knowledge/known_incidents/incident_counts.py``). What detectors saw without being sure of it is a feature like
any other. They never become a finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from msgspec import convert

from unhang.diagnosis.grades import names_cause
from unhang.diagnosis.ruled_out import excluded_causes
from unhang.facts.incident_features import incident_features
from unhang.facts.model import Facts
from unhang.findings import Candidate, Cause, Finding, KnownIncident, Severity, Status, Verdict
from unhang.knowledge.reasoning_rows import cause_rows, feature_rows
from unhang.knowledge.terms import term
from unhang.knowledge.thresholds import threshold, whole_threshold
from unhang.knowledge.words import text_of
from unhang.program.rank_dependence.unseeded_splits import UnseededSplit, unseeded_splits
from unhang.sentences import Text, say

if TYPE_CHECKING:
    from unhang.knowledge.known_incidents.incident_counts import CauseShare

MAX_CANDIDATES = 3
MIN_SHARE = threshold("differential.min_share")
"""A smaller share is not worth anybody's time."""
MAX_SHARE = 0.95
"""What nothing shows is never as good as sure, whatever was counted."""
REASONS = 2
MAX_PLACES = 2
"""Of the source, for a cause."""
MIN_SEEN = whole_threshold("differential.min_seen")
"""A reason is given as a count of at least so many incidents."""


def features_of(facts: Facts, findings: Sequence[Finding]) -> frozenset[str]:
    """What known incidents are counted by: how the stall looks, and what detectors made of it."""
    return incident_features(facts) | {f"found:{f.cause.value}:{f.certainty.value}" for f in findings}


def list_candidates(facts: Facts, verdict: Verdict) -> Verdict:
    """Lists, where nothing is *likely*, which causes similar logs had (below); the findings stay as they are.

    A cause is left out that the page itself rules out, and one whose condition is false here: by the order of time, by
    who had come, by steps that were made or grew slower before (``ruled_out.py``). So are incidents of such causes.
    """
    if all(finding.severity is Severity.NOTE for finding in verdict.findings) or _explained(verdict.findings):
        return verdict
    if verdict.status is Status.SLOW:
        return verdict  # counted were stalls and crashes: of a job that only slows down they say nothing
    if facts.manifests or not facts.logs:
        return verdict  # counted were logs: of dumps, and of a job that was sampled, they say nothing
    from unhang.knowledge.known_incidents.incident_counts import cause_shares  # most verdicts do without

    excluded = excluded_causes(facts) | {answer.cause for answer in verdict.ruled_out}
    excluded |= {finding.cause for finding in verdict.findings if finding.severity is Severity.NOTE}
    told = _without(excluded, cause_shares(features_of(facts, verdict.findings)))
    alike = tuple(row for row in _alike(facts, verdict.findings[0]) if row.cause not in excluded)
    return replace(
        verdict, differential=_candidates(told, _page_suspects(facts, told) | _source_suspects(facts)), incidents=alike
    )


def _without(causes: frozenset[Cause], told: Sequence[CauseShare]) -> tuple[CauseShare, ...]:
    """What is left of the shares when some causes are excluded by what the log shows; they add up to 1 again."""
    left = tuple(share for share in told if share.cause not in {cause.value for cause in causes})
    whole = sum(share.share for share in left)
    return tuple(replace(share, share=share.share / whole) for share in left) if whole else ()


def _explained(findings: Sequence[Finding]) -> bool:
    return any(names_cause(finding) and finding.severity is not Severity.NOTE for finding in findings)


def _candidates(told: Sequence[CauseShare], suspected: Mapping[Cause, tuple[Text, ...]]) -> tuple[Candidate, ...]:
    """The largest shares, and whatever the source, or the page on that part of the job, makes possible."""
    usual = [share for share in told[:MAX_CANDIDATES] if share.share >= MIN_SHARE]
    usual += [share for share in told if share not in usual and Cause(share.cause) in suspected]
    return tuple(_candidate(share, suspected.get(Cause(share.cause), ())) for share in usual)


def _candidate(share: CauseShare, seen: tuple[Text, ...]) -> Candidate:
    cause = Cause(share.cause)
    row = cause_rows()[cause]
    because = (*seen, *_reasons(share))
    return Candidate(cause, min(round(share.share, 2), MAX_SHARE), because, text_of(row.settles, {}), row.how)


def _reasons(share: CauseShare) -> Iterator[Text]:
    told = [(look, of, own) for name, of, own in share.telling if of >= MIN_SEEN and (look := feature_text(name))]
    for look, of, own in told[:REASONS]:
        yield say("{own} of {of} known incidents where {look} had this cause", own=own, of=of, look=look)


def feature_text(feature: str) -> Text | None:
    """``feature`` in words; None for one that only counts."""
    rows = feature_rows().said
    kind, _, value = feature.partition(":")
    phrase = rows.get(feature) or rows.get(f"{kind}:")
    return None if phrase is None else text_of(phrase, {"value": value})


def _alike(facts: Facts, finding: Finding) -> tuple[KnownIncident, ...]:
    """Of the incident library, by the words of the finding and of what it quotes."""
    from unhang.knowledge.known_incidents.incidents import Operation, StallSituation
    from unhang.knowledge.known_incidents.similar_incidents import similar_incidents

    shown = incident_features(facts)
    operation = next((name.removeprefix("op:") for name in sorted(shown) if name.startswith("op:")), "unknown")
    known = {
        "operation": operation if operation in get_args(Operation) else "unknown",
        "framework": tuple(sorted(name.removeprefix("with:") for name in shown if name.startswith("with:"))),
    }
    words = " ".join([str(finding.summary), *(item.text[:300] for item in finding.evidence[:4])])
    found = similar_incidents(convert(known, StallSituation), words)
    return tuple(KnownIncident(row.cause, row.link, row.happened, row.fixed) for row in found)


def _source_suspects(facts: Facts) -> dict[Cause, tuple[Text, ...]]:
    """What the source makes possible where nothing that ran tells the cause: a reason to look, never a finding."""
    if facts.all_joined_stalls:
        return {}  # every rank joined: what each does by itself explains nothing
    drawn = [(file.path, split) for file, split in unseeded_splits(facts.sources.values()) if _cuts(split)]
    drawn.sort(key=lambda found: not found[1].splits)
    told = tuple(_split_sentence(path, split) for path, split in drawn[:MAX_PLACES])
    return {Cause.UNEVEN_DATA: told} if told else {}


def _page_suspects(facts: Facts, told: Sequence[CauseShare]) -> dict[Cause, tuple[Text, ...]]:
    """What ``unhang explain`` names for the part of the job that the last line speaks of: one source for both."""
    pages, shown = feature_rows().pages, incident_features(facts)
    known = [found for look in pages if look in shown and (found := term(pages[look])) is not None]
    return {
        Cause(share.cause): (say('unhang explain "{page}" names it too', page=found.names[0]),)
        for found in known
        for share in told
        if share.cause in found.causes and round(share.share, 2)
    }


def _cuts(split: UnseededSplit) -> bool:
    """A loader or sampler that shuffles only orders what was drawn before."""
    return split.splits or not split.call.endswith(("DataLoader", "Sampler"))


def _split_sentence(path: str, split: UnseededSplit) -> Text:
    if split.why == "seed-differs":
        return say(
            "{call} at {path}:{line} is seeded with the rank: each rank gets a different split",
            call=split.call,
            path=path,
            line=split.line,
        )
    if split.why == "hash-order":
        return say(
            "{call} at {path}:{line} has a different order in every process: each rank may get a different split",
            call=split.call,
            path=path,
            line=split.line,
        )
    return say(
        "{call} at {path}:{line} has no seed: each rank may get a different split",
        call=split.call,
        path=path,
        line=split.line,
    )
