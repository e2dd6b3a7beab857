"""One rank's word that it goes no further in a loop, heard by the others within about half a second while they work.

A thread of ours asks the store twice a second, only while a loop runs; the loop itself looks at an attribute.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import astuple, dataclass

from unhang.errors import StoreLost
from unhang.guards.exchange.printing import print_message
from unhang.guards.exchange.rank_exchange import RankExchange

_ASK_EVERY_S = 0.4
_ASKED_A_SECOND = 500
"""All ranks together; the store has other work while they train."""


@dataclass(frozen=True, slots=True)
class StopNotice:
    """``rank`` stops after ``after`` batches, because of ``reason``; ``failed``: its loader raised."""

    rank: int
    after: int
    reason: str
    failed: bool


class StopNotices:
    """The alarm of one epoch of one loop. ``taken`` is how many batches this rank has taken; the loop keeps it."""

    def __init__(self, met: RankExchange, key: str, name: str) -> None:
        self.met, self.key, self.name = met, key, name
        self.heard: StopNotice | None = None
        self.taken = 0
        self.told = False

    def announce_stop(self, word: StopNotice, *, wait: bool) -> None:
        """Tell the others; ``wait`` until they have had the time to hear it."""
        said = json.dumps(astuple(word))
        self.told = True
        self.met.announce(self.key, said.encode())
        if wait:
            time.sleep(3 * _pause_s(self.met))

    def word(self) -> StopNotice | None:
        """What a rank said, asked for now."""
        said = self.met.poll(self.key)
        return StopNotice(*json.loads(said)) if said is not None else None

    def listen(self) -> None:
        """Begin to hear words of other ranks."""
        _listeners.add(self)

    def close(self) -> None:
        """Hear no more."""
        _listeners.discard(self)


class _NoticeListener:
    """The thread that asks for all loops of this process; it ends with the last loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alarms: list[StopNotices] = []
        self._thread: threading.Thread | None = None

    def add(self, alarm: StopNotices) -> None:
        with self._lock:
            self._alarms.append(alarm)
            if self._thread is None:
                self._thread = threading.Thread(target=self._ask, name="unhang-even-batches", daemon=True)
                self._thread.start()

    def discard(self, alarm: StopNotices) -> None:
        with self._lock:
            self._alarms = [other for other in self._alarms if other is not alarm]

    def _ask(self) -> None:
        idle = 0
        while True:
            with self._lock:
                alarms = list(self._alarms)
                idle = 0 if alarms else idle + 1
                if idle > 20:
                    self._thread = None
                    return
            try:
                for alarm in alarms:
                    _receive_notice(alarm)
            except StoreLost:  # the ranks cannot meet: whoever needs to will say so
                with self._lock:
                    self._alarms = []
            time.sleep(_pause_s(alarms[0].met) if alarms else _ASK_EVERY_S)


def _receive_notice(alarm: StopNotices) -> None:
    if alarm.heard is None:
        alarm.heard = alarm.word()
    word = alarm.heard
    if word is None or alarm.told or word.rank == alarm.met.rank or alarm.taken <= word.after:
        return
    # This rank may be in a collective without the other by now, where no exception reaches it.
    alarm.told = True
    print_message(f"{alarm.name}: {notice_text(word)}; this rank is in batch {alarm.taken}")


def notice_text(word: StopNotice) -> str:
    """The word as a clause."""
    return f"rank {word.rank} goes no further than {word.after} batches: {word.reason}"


def _pause_s(met: RankExchange) -> float:
    return max(_ASK_EVERY_S, met.world_size / _ASKED_A_SECOND)


_listeners = _NoticeListener()
