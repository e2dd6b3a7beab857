"""One bad member of many, found in two rounds: every member meets a partner, then every suspect a member that is fine.

A failed group has at least one bad member. In the second round each member of a failed group stands beside one that
passed; whoever fails again is bad. With no group that passed nothing can be told apart.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

Group = tuple[int, ...]


def first_round(members: Sequence[int]) -> tuple[Group, ...]:
    """Pairs of neighbours; the last group takes the odd one."""
    if len(members) < 2:
        return ()
    pairs = [tuple(members[start : start + 2]) for start in range(0, len(members) - 1, 2)]
    if len(members) % 2:
        pairs[-1] = (*pairs[-1], members[-1])
    return tuple(pairs)


def second_round(groups: Sequence[Group], failed: Collection[Group]) -> tuple[Group, ...]:
    """Every member of a failed group beside members that passed, which are dealt out as far as they go.

    Where there are more suspects than members that passed, the rest is left for another round and not in the answer.
    """
    suspects = [member for group in groups if group in failed for member in group]
    fine = [member for group in groups if group not in failed for member in group]
    return tuple((suspect, partner) for suspect, partner in zip(suspects, fine, strict=False))


def all_pairs_rounds(members: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Every pair once, in rounds of pairs that share nobody (the circle method)."""
    around: list[int | None] = list(members)
    if len(around) % 2:
        around.append(None)
    rounds = []
    for _ in range(len(around) - 1):
        half = len(around) // 2
        met = zip(around[:half], reversed(around[half:]), strict=True)
        rounds.append(tuple((a, b) for a, b in met if a is not None and b is not None))
        around = [around[0], around[-1], *around[1:-1]]
    return tuple(rounds)


def neighbour_rounds(members: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Two rounds in which every member meets two others: enough to tell a slow member from a slow pair of many."""
    even = tuple((members[i], members[i + 1]) for i in range(0, len(members) - 1, 2))
    odd = tuple((members[i], members[(i + 1) % len(members)]) for i in range(1, len(members), 2))
    return tuple(pairs for pairs in (even, odd) if pairs)
