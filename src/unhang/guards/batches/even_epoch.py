"""One epoch of ``even_batches`` on one rank: how it starts with the others, who left it, what it says at its end."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import astuple, dataclass
from typing import Any

from unhang.errors import GuardError, RankFailed, RanksDiffer, StoreLost
from unhang.guards.batches.batch_source import END, BatchSource, LoaderFailure
from unhang.guards.batches.batch_windows import WhenUneven
from unhang.guards.batches.loader_lengths import exact_length
from unhang.guards.exchange.agreement import agreements
from unhang.guards.exchange.missing_ranks import gather_from_all
from unhang.guards.exchange.printing import print_message, ranks_text
from unhang.guards.exchange.rank_exchange import RankExchange
from unhang.guards.exchange.stop_notices import StopNotice, StopNotices, notice_text
from unhang.wire.guard_statement import GuardStatement

GUARD = "even_batches"
ANSWER_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class EpochStart:
    """What a rank says at the start of an epoch."""

    exact: int | None
    when_uneven: str
    first: str
    """``batch``, ``end``, or why the loader could not give one."""
    ready: bool


class EvenEpoch:
    """What every kind of epoch has. ``taken``: batches this rank has given to the loop; ``over``: it ended as it
    should, or every rank knows already that it did not."""

    def __init__(self, loader: Any, when_uneven: WhenUneven, met: RankExchange, name: str, timeout_s: float) -> None:
        self.loader, self.met, self.name, self.timeout_s = loader, met, name, timeout_s
        self.mode: WhenUneven = when_uneven
        self.source = BatchSource(loader, keep_first=when_uneven == "pad")
        self.starts: dict[int, EpochStart] = {}
        self.alarm = StopNotices(met, "", name)
        self.taken = 0
        self.over = False

    def begin(self) -> None:
        """Read the first batch and hear how the others start."""
        first = self.source.peek()
        told = "end" if first is END else repr(first) if isinstance(first, LoaderFailure) else "batch"
        mine = EpochStart(exact_length(self.loader), self.mode, told, agreements.ready())
        heard = gather_from_all(
            self.met, f"{self.name}/epoch", json.dumps(astuple(mine)).encode(), self.timeout_s, guard=GUARD
        )
        self.starts = {rank: EpochStart(*json.loads(start)) for rank, start in heard.items()}
        self.alarm.key = f"alarm/{self.met.turn(f'{self.name}/alarm')}"
        self._refuse_bad_start(first)
        self.alarm.listen()

    def close(self) -> None:
        """The loop was left: by its end, by ``break``, or by an exception."""
        self.alarm.close()
        if self.over or not self.alarm.key or sys.is_finalizing():
            return
        agreements.drop()
        if self.alarm.heard is None and not self.alarm.told:
            try:
                word = StopNotice(
                    self.met.rank, self.taken, "it left the loop (break, return or an exception)", failed=False
                )
                self.alarm.announce_stop(word, wait=False)
            except StoreLost:
                return

    def exact_lengths(self) -> dict[int, int] | None:
        """The number of batches of every rank; None where one of them cannot know."""
        lengths = {rank: start.exact for rank, start in self.starts.items() if start.exact is not None}
        return lengths if len(lengths) == len(self.starts) else None

    def take(self, batch: Any) -> Any:
        """``batch``, counted as the next one of the loop.

        Raises:
            GuardError: a rank said that it does not come as far.
        """
        self._refuse_to_go_past()
        self.taken = self.alarm.taken = self.taken + 1
        return batch

    def end(self) -> None:
        """The last batch was worked on.

        Raises:
            GuardError: a rank said that it did not come as far.
        """
        self._refuse_to_go_past(ended=True)
        self.over = True

    def announce_stop(self, after: int, batch: Any) -> None:
        """Tell the others in time: they hear it while they are in the batch before."""
        failed = isinstance(batch, LoaderFailure)
        reason = f"its loader raised {batch!r}" if failed else "its loader ended before its length says"
        self.alarm.announce_stop(StopNotice(self.met.rank, after, reason, failed), wait=True)

    def stop_error(self, word: StopNotice) -> GuardError:
        """The error for a rank that goes no further."""
        if word.failed:
            return self.loader_error(notice_text(word), word.rank, word.reason)
        message = f"{self.name}: {notice_text(word)}, while this rank goes on"
        statement = GuardStatement("apart", GUARD, (word.rank,)).line()
        return RanksDiffer(message, ranks=(word.rank,), statement=statement)

    def loader_error(self, what: str, rank: int, reason: str) -> RankFailed:
        """The error for a loader that raised in another rank."""
        said = GuardStatement("failed", GUARD, (rank,), detail=reason.removeprefix("its loader raised "))
        return RankFailed(f"{self.name}: {what}", rank=rank, reason=reason, statement=said.line())

    def lengths_error(
        self, lengths: dict[int, int], ranks: tuple[int, ...], *, after: str = "", more: bool = False
    ) -> RanksDiffer:
        """The error for loaders of different lengths; ``ranks`` are those that stand out."""
        self.over = True
        numbers = _lengths_text(lengths, more=more)
        said = GuardStatement("differ", GUARD, ranks, detail=numbers, of_data=True)
        message = f"{self.name}: {after}numbers of batches differ: {numbers}"
        return RanksDiffer(message, ranks=ranks, statement=said.line())

    def counts(self) -> dict[int, tuple[int, int]]:
        """(taken, own batches known of) by rank; ranks that do not come in time are left out."""
        said = json.dumps([self.taken, self.source.taken])
        gathered = self.met.gather(f"{self.name}/counts", said.encode(), timeout_s=ANSWER_LIMIT_S)
        return {rank: tuple(json.loads(value)) for rank, value in gathered.values.items()}

    def report(self, counts: dict[int, tuple[int, int]], *, exact: bool) -> None:
        """One line from rank 0 when ranks were uneven."""
        dropped = {rank: own - taken for rank, (taken, own) in counts.items() if own > taken}
        padded = {rank: taken - own for rank, (taken, own) in counts.items() if own < taken}
        if self.met.rank != 0 or not (dropped or padded):
            return
        least = "" if exact else "at least "
        parts = [f"{ranks_text(ranks)} dropped {least}{n}" for n, ranks in ranks_by_number(dropped)]
        parts += [f"{ranks_text(ranks)} repeated {n}" for n, ranks in ranks_by_number(padded)]
        print_message(f"{self.name}: {self.taken} batches on every rank; {', '.join(parts)}")

    def _refuse_to_go_past(self, *, ended: bool = False) -> None:
        word = self.alarm.heard
        if word is not None and word.rank != self.met.rank and self.taken - ended >= word.after:
            raise self.stop_error(word)

    def _refuse_bad_start(self, first: Any) -> None:
        modes = {start.when_uneven for start in self.starts.values()}
        if len(modes) > 1:
            ranks = tuple(rank for rank, start in self.starts.items() if start.when_uneven != self.mode)
            self.over = True
            raise RanksDiffer(
                f"{self.name}: when_uneven differs between ranks: {' and '.join(sorted(modes))}", ranks=ranks
            )
        failed = [(rank, start.first) for rank, start in self.starts.items() if start.first not in ("batch", "end")]
        if failed:
            self.over = True
            if isinstance(first, LoaderFailure):
                raise first.error
            rank, reason = failed[0]
            raise self.loader_error(f"rank {rank} could not load its first batch: {reason}", rank, reason)
        empty = tuple(rank for rank, start in self.starts.items() if start.first == "end")
        if empty and len(empty) < len(self.starts) and self.mode == "pad":
            self.over = True
            raise RanksDiffer(
                f"{self.name}: no batch to pad with on {ranks_text(empty)}: give every rank at least one", ranks=empty
            )


def ranks_by_number(numbers: dict[int, int]) -> list[tuple[int, list[int]]]:
    """Each number with the ranks that have it."""
    ranks_of: dict[int, list[int]] = {}
    for rank, number in sorted(numbers.items()):
        ranks_of.setdefault(number, []).append(rank)
    return sorted(ranks_of.items())


def _lengths_text(lengths: dict[int, int], *, more: bool) -> str:
    """Which ranks have how many batches; ``more``: the largest number may be larger still."""
    groups = ranks_by_number(lengths)
    most = max(lengths.values(), default=0)
    return ", ".join(f"{ranks_text(ranks)} {n}{' or more' if more and n == most else ''}" for n, ranks in groups)


def minority_ranks(lengths: dict[int, int]) -> tuple[int, ...]:
    """The ranks that differ from most; all where none are most."""
    usual, *others = Counter(lengths.values()).most_common()
    if others and others[0][1] == usual[1]:
        return tuple(lengths)
    return tuple(rank for rank, length in lengths.items() if length != usual[0])
