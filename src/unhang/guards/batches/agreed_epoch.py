"""Epochs of loaders whose length nobody knows: the ranks agree a window of batches ahead, while they compute."""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections.abc import Iterator
from typing import Any

from unhang.errors import GuardError, RankFailed, RanksDiffer
from unhang.guards.batches.batch_source import LoaderFailure, is_end_or_failure
from unhang.guards.batches.batch_windows import LARGEST_WINDOW, WindowDecision, batches_due, decide_window, window_for
from unhang.guards.batches.even_epoch import ANSWER_LIMIT_S, GUARD, EvenEpoch
from unhang.guards.batches.loader_lengths import is_stateful_loader
from unhang.guards.exchange.agreement import AgreedWindow, PendingAgreement, agreements
from unhang.guards.exchange.missing_ranks import gather_from_all, ranks_missing_error
from unhang.guards.exchange.printing import print_message, ranks_text
from unhang.guards.exchange.stop_notices import StopNotice
from unhang.inprocess import annotations as marked

_CREATE_S = 300.0


class AgreedEpoch:
    """One epoch, window by window."""

    def __init__(self, epoch: EvenEpoch) -> None:
        self._epoch = epoch
        self._pace = _Pace()
        self._key = zlib.crc32(epoch.alarm.key.encode())
        self._turn = 0

    def batches(self) -> Iterator[Any]:
        """The batches of this rank, as many on every rank."""
        epoch = self._epoch
        self._warn_of_reading_ahead()
        self._make_group()
        window, last, uneven = 1, False, False
        found: list[Any] = []
        pending = self._say(found, window)
        while not last:
            agreed = self._hear(pending)
            decision = decide_window(agreed.fewest, agreed.most, window, epoch.mode)
            last, uneven = decision.last, uneven or decision.uneven
            self._refuse(agreed, decision)
            batches, found = found, []
            window = agreed.window
            for place in range(decision.take):
                if not last:
                    self._read(found, batches_due(window, place, decision.take))
                    if place + 1 == decision.take:
                        pending = self._say(found, window)
                batch = batches[place] if place < len(batches) else self._padding()
                self._pace.step()
                yield epoch.take(batch)
        epoch.end()
        if uneven:
            epoch.report(epoch.counts(), exact=False)

    def _warn_of_reading_ahead(self) -> None:
        epoch = self._epoch
        if epoch.met.rank == 0 and epoch.name not in _warned and is_stateful_loader(epoch.loader):
            _warned.add(epoch.name)
            print_message(
                f"{epoch.name}: reads the loader up to {2 * LARGEST_WINDOW} batches ahead, so its state_dict and "
                "Accelerate's last-batch flag are ahead too (Accelerate keeps its streams even by itself)."
            )

    def _make_group(self) -> None:
        epoch = self._epoch
        if all(start.ready for start in epoch.starts.values()):
            return
        why = agreements.make(max(epoch.timeout_s, _CREATE_S))
        told = gather_from_all(epoch.met, f"{epoch.name}/group", json.dumps(why).encode(), _CREATE_S, guard=GUARD)
        reasons = {rank: json.loads(reason) for rank, reason in told.items() if json.loads(reason)}
        if reasons:
            agreements.drop()
            epoch.over = True
            rank, reason = next(iter(reasons.items()))
            raise RankFailed(
                f"{epoch.name}: rank {rank} cannot create a Gloo group ({reason}). Set GLOO_SOCKET_IFNAME to the "
                "interface that reaches the other nodes, or give the loader an exact length.",
                rank=rank,
                reason=reason,
            )

    def _read(self, found: list[Any], wanted: int) -> None:
        epoch = self._epoch
        while len(found) < wanted and not epoch.source.ended:
            batch = epoch.source.take()
            if is_end_or_failure(batch):
                return
            found.append(batch)

    def _say(self, found: list[Any], window: int) -> PendingAgreement:
        """Fill the window and begin the agreement on it."""
        epoch = self._epoch
        self._read(found, window)
        failed = epoch.source.failed
        if failed is not None and not epoch.alarm.told:
            epoch.alarm.announce_stop(
                StopNotice(epoch.met.rank, sys.maxsize, f"its loader raised {failed!r}", failed=True), wait=False
            )
        began = time.perf_counter()
        pending = agreements.say(
            have=len(found),
            window=self._pace.wish(),
            failed=failed is not None,
            rank=epoch.met.rank,
            key=self._key,
            turn=self._turn,
        )
        self._turn += 1
        self._pace.cost(time.perf_counter() - began)
        return pending

    def _hear(self, pending: PendingAgreement) -> AgreedWindow:
        epoch = self._epoch
        waits = False
        asked_at = epoch.timeout_s

        def while_waiting(waited_s: float) -> None:
            nonlocal waits, asked_at
            if not waits:
                waits = True
                marked.begin_wait(epoch.name)
            word = epoch.alarm.heard
            if word is not None and word.rank != epoch.met.rank and not word.failed:
                raise epoch.stop_error(word)
            if waited_s >= asked_at:
                asked_at = waited_s + epoch.timeout_s
                self._who_is_missing(waited_s)

        began = time.perf_counter()
        try:
            return pending.result(while_waiting)
        except GuardError as error:
            word = epoch.alarm.heard or epoch.alarm.word()
            if word is not None and word.rank != epoch.met.rank:
                raise epoch.stop_error(word) from error
            ended = epoch.met.ended_ranks()
            if not ended:
                raise
            raise RankFailed(
                f"{epoch.name}: the process of {ranks_text(ended)} has ended, after about {epoch.taken} batches. "
                "See its output first: what failed there failed before this.",
                rank=ended[0],
                reason="its process has ended",
            ) from error
        finally:
            self._pace.not_a_step(time.perf_counter() - began)
            if waits:
                marked.end_wait()

    def _who_is_missing(self, waited_s: float) -> None:
        epoch = self._epoch
        what = f"{epoch.name}, batch {epoch.taken + 1}"
        gathered = epoch.met.gather(f"{epoch.name}/missing", b"", timeout_s=ANSWER_LIMIT_S)
        if gathered.missing:
            raise ranks_missing_error(epoch.met, what, gathered, waited_s, guard=GUARD)

    def _refuse(self, agreed: AgreedWindow, decision: WindowDecision) -> None:
        epoch = self._epoch
        if agreed.apart:
            raise RanksDiffer(f"{epoch.name}: ranks are in different loops or epochs; run each on every rank", ranks=())
        if agreed.failed is not None:
            self._fail(agreed.failed)
        if epoch.mode == "error" and decision.uneven:
            found = {rank: own for rank, (_, own) in epoch.counts().items()}
            short = tuple(rank for rank, own in found.items() if own < max(found.values()))
            after = f"after {epoch.taken + decision.take} batches some ranks have no more: "
            raise epoch.lengths_error(found, short, after=after, more=True)

    def _fail(self, rank: int) -> None:
        epoch = self._epoch
        epoch.over = True
        agreements.drop()
        if epoch.source.failed is not None:
            raise epoch.source.failed.error
        word = epoch.alarm.word()
        reason = word.reason if word is not None else "its loader raised"
        raise epoch.loader_error(f"rank {rank} goes no further than {epoch.taken} batches: {reason}", rank, reason)

    def _padding(self) -> Any:
        epoch = self._epoch
        batch = epoch.source.pad()
        if isinstance(batch, LoaderFailure):
            epoch.announce_stop(epoch.taken, batch)
            raise batch.error
        return batch


_warned: set[str] = set()
"""Loops of which it was said that their loader is read ahead: once is enough."""


class _Pace:
    """What an agreement costs and how long a step takes, as running means."""

    def __init__(self) -> None:
        self._cost_s = 0.0
        self._step_s = 0.0
        self._last: float | None = None

    def cost(self, took_s: float) -> None:
        """An agreement was begun in ``took_s``."""
        self._cost_s = took_s if not self._cost_s else 0.8 * self._cost_s + 0.2 * took_s

    def step(self) -> None:
        """A batch goes to the loop."""
        now = time.perf_counter()
        if self._last is not None:
            took_s = now - self._last
            self._step_s = took_s if not self._step_s else 0.8 * self._step_s + 0.2 * took_s
        self._last = now

    def not_a_step(self, waited_s: float) -> None:
        """So much of the time since the last batch was spent in waiting for the others."""
        if self._last is not None:
            self._last += waited_s

    def wish(self) -> int:
        """The window this rank would like; reading the answer costs about as much as asking."""
        return window_for(2 * self._cost_s, self._step_s)
