"""What stands over the place of a finding: its ranks are there, were seen there last, or it only tells why."""

from __future__ import annotations

from collections.abc import Iterator

from unhang.evidence.items import Frame
from unhang.facts.model import Facts, RankFacts
from unhang.facts.waiting.pending_call_frames import last_recorded_call
from unhang.findings import Finding, Where
from unhang.report import labels
from unhang.sentences import Text, say


def place_heading(finding: Finding, facts: Facts | None) -> Text:
    """Without ``facts`` the finding is taken at its word."""
    if not finding.ranks:
        return say("It happens here")
    known = [facts.ranks[rank] for rank in finding.ranks if facts is not None and rank in facts.ranks]
    ranks = labels.short_ranks(finding.ranks)
    if finding.where is None or all(_is_now_at(rank, finding.where) for rank in known):
        one, more = say("Rank {rank} is here", rank=finding.ranks[0]), say("Ranks {ranks} are here", ranks=ranks)
    elif all(_was_seen_at(rank, finding.where) for rank in known):
        one = say("Rank {rank} was last seen here", rank=finding.ranks[0])
        more = say("Ranks {ranks} were last seen here", ranks=ranks)
    else:
        return say("Look at this line")
    return one if len(finding.ranks) == 1 else more


def _is_now_at(known: RankFacts, where: Where) -> bool:
    """Also where no stack tells."""
    frames = list(_frames(known))
    return not frames or any((frame.file, frame.line) == (where.file, where.line) for frame in frames)


def _frames(known: RankFacts) -> Iterator[Frame]:
    for stack in (known.stack, *known.earlier_stacks):
        for thread in stack.threads if stack is not None else ():
            yield from thread.frames
    yield from known.activity.frames if known.activity is not None else ()
    for traceback in known.tracebacks:
        yield from traceback.frames


def _was_seen_at(known: RankFacts, where: Where) -> bool:
    last = last_recorded_call(known)
    return last is not None and last.where == where
