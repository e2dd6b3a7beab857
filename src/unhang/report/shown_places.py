"""The places in the program that a finding shows, each with its heading: ranks are there, were seen there last, or it
only tells why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from unhang.evidence.items import Frame
from unhang.facts.model import Facts, RankFacts
from unhang.facts.stacks.child_processes import awaited_children
from unhang.facts.waiting.pending_call_frames import last_recorded_call
from unhang.findings import Finding, Where
from unhang.report import labels
from unhang.sentences import Text, say


def shown_places(finding: Finding, facts: Facts | None) -> Iterator[tuple[Text, Where]]:
    """Each with its heading; that of the child stands after the place of the rank that waits for it."""
    known = facts.ranks.get(finding.ranks[0]) if facts is not None and finding.ranks else None
    for who, where in _headed_places(finding, facts):
        yield who, where
        at = known.activity.where if known is not None and known.activity is not None else None
        if facts is not None and known is not None and where == finding.where == at:
            for child in islice(awaited_children(facts, known), 1):
                yield say("Its child process {pid} is here", pid=child.pid), child.where


def _headed_places(finding: Finding, facts: Facts | None) -> Iterator[tuple[Text, Where]]:
    """The place of a finding and that of those who wait, each with its heading. Ranks that are blamed too and are where
    the wait is, as where two sides called differently, are named there. Without ``facts`` the finding is taken at its
    word.
    """
    known = [facts.ranks[rank] for rank in finding.ranks if facts is not None and rank in facts.ranks]
    here, waiting = finding.where, finding.waiter_where
    there = [one for one in known if _stands_at(one, waiting) and not _stands_at(one, here)]
    if here is not None:
        unseen = [one for one in known if not any(_frames(one))] if any(_stands_at(one, here) for one in known) else []
        others = {one.rank for one in (*there, *unseen)}
        named = tuple(rank for rank in finding.ranks if rank not in others) or finding.ranks
        yield _heading(named, here, [one for one in known if one.rank in named]), here
    if waiting not in (None, here):
        ranks = tuple(one.rank for one in there)
        yield _heading(ranks, waiting, there) if ranks else say("The other ranks wait here"), waiting


def _heading(ranks: tuple[int, ...], where: Where, known: Sequence[RankFacts]) -> Text:
    if not ranks:
        return say("It happens here")
    shown = labels.short_ranks(ranks)
    if all(_is_now_at(rank, where) for rank in known):
        one, more = say("Rank {rank} is here", rank=ranks[0]), say("Ranks {ranks} are here", ranks=shown)
    elif all(_was_seen_at(rank, where) for rank in known):
        one = say("Rank {rank} was last seen here", rank=ranks[0])
        more = say("Ranks {ranks} were last seen here", ranks=shown)
    else:
        return say("Look at this line")
    return one if len(ranks) == 1 else more


def _stands_at(known: RankFacts, where: Where | None) -> bool:
    if where is None:
        return False
    return any((f.file, f.line) == (where.file, where.line) for f in _frames(known)) or _was_seen_at(known, where)


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
