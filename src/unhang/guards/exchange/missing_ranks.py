"""The error for ranks that did not come: who, since when, what they are doing, and what to look for in the source."""

from __future__ import annotations

import time
from collections.abc import Callable

from unhang.errors import RanksMissing, StoreLost
from unhang.guards.call_site import branch_on_rank, called_from
from unhang.guards.exchange.packed import rank_spans
from unhang.guards.exchange.rank_exchange import GatheredValues, RankExchange
from unhang.inprocess import annotations as marked
from unhang.wire.guard_statement import GuardStatement
from unhang.wire.record_views import CodeLine

STACKS_LIMIT_S = 8.0
MAX_NAMED = 8


def gather_from_all(
    here: RankExchange,
    what: str,
    mine: bytes,
    timeout_s: float,
    *,
    guard: str = "",
    ends: Callable[[bytes], bool] = lambda _: False,
) -> dict[int, bytes]:
    """What every rank said. ``ends``: for a word of a rank at which nobody has to come any more.

    Raises:
        RanksMissing: with the stacks of ranks that did not come.
    """
    since = time.monotonic()

    def progress(_: float, absent: tuple[int, ...]) -> None:
        marked.begin_wait(what, absent, limit_s=timeout_s)

    progress(0.0, ())
    try:
        gathered = here.gather(what, mine, timeout_s=timeout_s, progress=progress)
        if gathered.missing and not any(map(ends, gathered.values.values())):
            raise ranks_missing_error(here, what, gathered, time.monotonic() - since, guard=guard)
        return gathered.values
    finally:
        marked.end_wait()


def ranks_missing_error(
    here: RankExchange, what: str, gathered: GatheredValues, waited_s: float, *, guard: str = ""
) -> RanksMissing:
    """The error of a round of ``what`` (``together('save')``) in which ranks are missing, made in the caller's thread.
    ``guard``: its name alone, where ``what`` says more.

    Asks the missing ranks for their stacks: takes a second, 8 s at most (20 s and more where only their own machine
    could ask them, of which nobody came).
    """
    missing = gathered.missing
    stacks = here.stacks_of(missing, gathered.turn, timeout_s=STACKS_LIMIT_S)
    where = called_from()
    if here.rank in missing:
        message = (
            f"{what} at {where}: this rank ({here.rank}) came too late, after the other ranks timed out. "
            f"Make it get here earlier, or give all ranks a longer timeout_s."
        )
        late = GuardStatement("missing", guard or what, (here.rank,))
        return RanksMissing(message, ranks=missing, stacks=stacks, statement=late.line())
    came = [rank for rank in range(here.world_size) if rank not in missing]
    ended = _ended(missing, stacks)
    branch = None if ended else branch_on_rank()
    lines = [
        f"{what} at {where}: {_ranks(missing)} did not come within {waited_s:.0f} s ({_ranks(came)} did).",
        _what_to_do(ended, branch),
    ]
    named = sorted(missing, key=lambda rank: rank not in ended)[:MAX_NAMED]
    lines += [f"Rank {rank} {_last_seen(here, rank)}{_doing(stacks.get(rank))}" for rank in named]
    if len(missing) > MAX_NAMED:
        lines.append(f"And {len(missing) - MAX_NAMED} more.")
    line, test = branch or (None, "")
    said = GuardStatement(
        "missing", guard or what, missing, came=tuple(came), branch=line, test=test, partner_died=bool(ended)
    )
    return RanksMissing("\n".join(lines), ranks=missing, stacks=stacks, statement=said.line())


def _what_to_do(ended: list[int], branch: tuple[CodeLine, str] | None) -> str:
    if ended:
        return f"See the output of {_ranks(ended)} first: what failed there failed before this."
    return f"Let every rank make this call. {_usual(branch)}"


def _ended(missing: tuple[int, ...], stacks: dict[int, str]) -> list[int]:
    return [rank for rank in missing if stacks.get(rank, "").endswith("has ended")]


def _usual(branch: tuple[CodeLine, str] | None) -> str:
    if branch is not None:
        line, test = branch
        return f"Not every rank gets here: {line.file}:{line.line}: {test}"
    return (
        "Usual causes: the call is under a test like `if rank == 0`, or these ranks left their loop earlier "
        "(or are still in it) because they have a different number of batches."
    )


def _last_seen(here: RankExchange, rank: int) -> str:
    try:
        last = here.position_of(rank)
    except StoreLost:
        last = None
    if last is None:
        return "never came to a guard"
    return f"last came to {last.topic} (call {last.number}, {last.where}) {last.ago_s:.0f} s ago"


def _doing(stack: str | None) -> str:
    if stack is None:
        return "; its stack is not available."
    if not stack.startswith(" "):
        return f"; {stack}"
    return f"; it is now here:\n{stack}"


def _ranks(ranks: tuple[int, ...] | list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + rank_spans(ranks).replace(",", ", ")
