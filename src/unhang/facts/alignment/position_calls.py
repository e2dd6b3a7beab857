"""What each rank called at one position, and from which call on ranks called something else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from unhang.evidence.items import RecorderDump, RecorderEntries
from unhang.facts.alignment.group_table import recorded_call
from unhang.facts.collective_operations import canonical_operation, signature_text
from unhang.facts.model import GroupFacts, PendingCall
from unhang.facts.stacks.user_frames import first_user_frame
from unhang.findings import Where
from unhang.knowledge.thresholds import whole_threshold


def calls_by_rank(group: GroupFacts, position: int, recordings: Mapping[int, RecorderDump]) -> dict[int, PendingCall]:
    """Each rank's call at ``position`` of ``group``, as its recording has it; ranks without one are left out."""
    calls = {}
    for rank, entries in group.entries.items():
        at = (entries.position == position).nonzero()[0]
        if len(at):
            calls[rank] = recorded_call(rank, group.name, entries, int(at[0]), recordings[rank].source)
    return calls


_FARTHEST = 1024


def first_extra_call(entries: Mapping[int, RecorderEntries], odd: Sequence[int], first: int) -> int:
    """The first of the extra calls that made the ``odd`` ranks disagree at ``first``; ``first`` where there are none.

    Extra calls come from another line than the others' at their positions; after them the odd ranks repeat what the
    others called from there on.
    """
    mine = next((entries[rank] for rank in odd if rank in entries), None)
    theirs = next((e for rank, e in sorted(entries.items()) if rank not in odd), None)
    if mine is None or theirs is None:
        return first
    last = first - 1
    while last > first - _FARTHEST and _site(mine, last) is not None and _site(mine, last) == _site(theirs, last):
        last -= 1
    start = last
    while start > first - _FARTHEST and _is_other_call_site(mine, theirs, start):
        start -= 1
    start += 1
    if start > last:
        return first
    repeated = all(_called(mine, last + 1 + n) == _called(theirs, start + n) for n in range(first - last))
    return start if repeated else first


def differing_positions(
    entries: Mapping[int, RecorderEntries], sides: Iterable[Sequence[int]], first: int
) -> list[int]:
    """Positions up to ``first`` at which the sides called from different lines."""
    some = [entries[ranks[0]] for ranks in sides if ranks[0] in entries]
    found = []
    for position in range(max(first - _FARTHEST, 0), first):
        calls = {_called(one, position) for one in some} - {None}
        if len(calls) > 1:
            found.append(position)
    return [*found, first]


MIN_ALIKE = whole_threshold("position_calls.min_alike")


@dataclass(frozen=True, slots=True)
class Departure:
    """``ranks`` did not make the call that was due at a position, by the order in which calls had come until then."""

    ranks: tuple[int, ...]
    skipped: int
    """So many calls were due before the one they made; 0 where that one was not due at all."""
    whole_rounds: bool
    """The call that was due comes again among those: whole rounds are left out, as at the end of a loop."""


def find_departure(
    entries: Mapping[int, RecorderEntries], position: int, *, some_missing: bool = False
) -> Departure | None:
    """Who left the order that the group had kept, whether they are few or many; None where that does not tell, or only
    what was passed to one call differs. ``some_missing``: others called there too, and left no record."""
    sides: dict[_Call, list[int]] = defaultdict(list)
    for rank, mine in sorted(entries.items()):
        call = _called(mine, position)
        if call is not None:
            sides[call].append(rank)
    missed = {call: _missed(_calls_before(entries[ranks[0]], position), call) for call, ranks in sides.items()}
    odd = [call for call in sides if missed[call]]
    if not odd or (len(odd) == len(sides) and not some_missing):
        return None
    due, *after = missed[odd[0]]
    skipped = after.index(odd[0]) + 1 if odd[0] in after else 0
    if not skipped and any(_is_same_but_arguments(call, due) for call in odd):
        return None
    rounds = due in after[: max(skipped - 1, 0)]
    if len(odd) == len(sides) and (rounds or not skipped):
        return None  # all together may have gone on to something else
    return Departure(tuple(sorted(rank for call in odd for rank in sides[call])), skipped, rounds)


def keeps_order(entries: RecorderEntries, position: int) -> bool:
    """The call there is the one that was due, by what came before it."""
    call, before = _called(entries, position), _calls_before(entries, position)
    most, fit = _fit(before, _alike(before), call)
    return fit == most >= MIN_ALIKE


def comes_later(entries: RecorderEntries, position: int, where: Where) -> bool:
    """A call from that line follows the one that is due there, as far as it did the last time."""
    before = _calls_before(entries, position)
    alike = _alike(before)
    after = before[alike.index(max(alike)) + 1 :] if alike else ()
    return any(at is not None and (at.file, at.line) == (where.file, where.line) for _, at in after)


def _missed(before: Sequence[_Call], call: _Call) -> Sequence[_Call]:
    """What came the last time that as many calls as possible before it were these; empty where ``call`` did as well."""
    alike = _alike(before)
    most, fit = _fit(before, alike, call)
    return before[alike.index(most) :] if fit + MIN_ALIKE <= most else ()


def _fit(before: Sequence[_Call], alike: Sequence[int], call: _Call | None) -> tuple[int, int]:
    """(so many calls were alike before any call, so many before this one) at the best place of each."""
    return max(alike, default=0), max((n for at, n in enumerate(alike) if before[at] == call), default=0)


def _is_same_but_arguments(one: _Call, other: _Call) -> bool:
    return (one[0].partition(" ")[0], one[1]) == (other[0].partition(" ")[0], other[1])


def _calls_before(entries: RecorderEntries, position: int) -> list[_Call]:
    rows = int(entries.position.searchsorted(position))
    pairs = list(zip(entries.signature[:rows].tolist(), entries.stack[:rows].tolist(), strict=True))
    known = {pair: _call(entries, *pair) for pair in set(pairs)}
    return [known[pair] for pair in pairs]


def _alike(calls: Sequence[_Call]) -> list[int]:
    """For each of ``calls``, how many calls before it are those that stand at the end (Z-algorithm, backwards)."""
    back, size = calls[::-1], len(calls)
    alike, start, end = [0] * (size + 1), 0, 0
    for at in range(1, size):
        length = min(end - at, alike[at - start]) if at < end else 0
        while at + length < size and back[length] == back[at + length]:
            length += 1
        alike[at] = length
        if at + length > end:
            start, end = at, at + length
    return [alike[size - at] for at in range(size)]


def was_called_before(entries: RecorderEntries, position: int) -> bool:
    """Whether the call at ``position`` is one that the rank had made before."""
    return _called(entries, position) in _calls_before(entries, position)


def _is_other_call_site(mine: RecorderEntries, theirs: RecorderEntries, position: int) -> bool:
    sites = _site(mine, position), _site(theirs, position)
    return None not in sites and sites[0] != sites[1]


_Call = tuple[str, Where | None]
"""What ranks must share of a call, and its line."""


def _called(entries: RecorderEntries, position: int) -> _Call | None:
    index = _index(entries, position)
    return _call(entries, int(entries.signature[index]), int(entries.stack[index])) if index is not None else None


def _site(entries: RecorderEntries, position: int) -> Where | None:
    called = _called(entries, position)
    return called[1] if called is not None else None


def _index(entries: RecorderEntries, position: int) -> int | None:
    index = int(entries.position.searchsorted(position))
    return index if index < len(entries) and int(entries.position[index]) == position else None


def _call(entries: RecorderEntries, signature: int, stack: int) -> _Call:
    signed = entries.signatures[signature]
    text = signature_text(signed) or canonical_operation(signed.operation)
    return text, first_user_frame(entries.stacks[stack]) if stack >= 0 else None
