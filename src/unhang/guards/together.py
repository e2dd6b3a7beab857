"""``together("save")``: every rank must get here, and what only some reach is an error instead of a timeout."""

from __future__ import annotations

import json
from contextlib import suppress
from types import TracebackType

from unhang.errors import RankFailed, StoreLost
from unhang.guards.arguments import checked_seconds, checked_text
from unhang.guards.exchange.missing_ranks import gather_from_all
from unhang.guards.exchange.printing import exception_text
from unhang.guards.exchange.rank_exchange import current_exchange
from unhang.guards.phases import phase
from unhang.wire.guard_statement import GuardStatement

OK = b"ok"
FINISH_S = 1800.0


class together:  # noqa: N801 - used like a function
    """Every rank must make this call: ``together("save")`` alone, or ``with together("save"):`` around the work.

    A rank that does not come within ``timeout_s`` is named, with its stack, in every rank that did. At the end of a
    ``with`` block a rank waits for the others, on the store and without a limit of NCCL's, and an exception of one
    rank reaches all. Without torch.distributed, and in a group of one, it does nothing.

    Args:
        name: what the ranks do together; the same in all. Use a fixed name rather than one a step.
        timeout_s: how far apart the ranks may come, in seconds.
        finish_s: how long the slowest rank may take in the block, in seconds; half an hour when not given. Given, it
            is also what ``unhang run`` takes for normal.

    Raises:
        RanksMissing: ranks did not come, or did not finish.
        RankFailed: another rank raised inside the block.
        StoreLost: the store of the job is gone.
        UsageError: an empty name or a limit that is no positive number.
    """

    def __init__(self, name: str, *, timeout_s: float = 60.0, finish_s: float | None = None) -> None:
        self._name = checked_text("together", "name", name)
        timeout_s = checked_seconds("together", "timeout_s", timeout_s)
        self._finish_s = FINISH_S if finish_s is None else checked_seconds("together", "finish_s", finish_s)
        self._phase = phase(self._name, at_most_s=finish_s)
        self._here = current_exchange()
        if self._here is not None:
            gather_from_all(self._here, f"together({self._name!r})", b"", timeout_s)

    def __enter__(self) -> None:
        self._phase.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._phase.__exit__(kind, error, at)
        if self._here is None:
            return
        what = f"the end of together({self._name!r})"
        if error is not None:
            with suppress(StoreLost):  # this rank's own error is what matters
                self._here.abort_turn(what, json.dumps(exception_text(error)).encode())
            return
        ended = gather_from_all(self._here, what, OK, self._finish_s, ends=lambda said: said != OK)
        for rank, said in ended.items():
            if said != OK:
                reason = json.loads(said)
                call = f"together({self._name!r})"
                message = f"{call}: rank {rank} failed inside: {reason}"
                statement = GuardStatement("failed", call, (rank,), detail=reason).line()
                raise RankFailed(message, rank=rank, reason=reason, statement=statement)
