"""Who did what when: walk over the events in order of time and give every moment to the innermost activity."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from unhang.findings import Phase
from unhang_compare.kineto.columns import Events
from unhang_compare.kineto.names import BACKWARD_NAME, EventName
from unhang_compare.rank_times import CARD, DEVICE, MAIN, OWN, THREAD, WAITING, Activity

MAX_CELLS = 8 << 20
"""Activities times samples: 64 MiB."""
TOUCHING_S = 5e-9
"""Beginnings and lengths are rounded apart: what overlaps by so little follows, and is not inside."""
MAX_EXTERNAL = 64 << 20
_STICKY = (Phase.COMMUNICATION, Phase.SAVE, Phase.EVAL, Phase.LOG, Phase.DATA)
"""What is computed while data is loaded or a checkpoint is saved belongs to that."""

_WRAPPERS = tuple(
    f".{name}"
    for name in ("wrapper", "_call_impl", "_wrapped_call_impl", "inner", "wrapped", "decorate_context", "__call__")
)
"""What they call says more than they do."""


@dataclass(slots=True)
class _ThreadState:
    on: str
    now: float = 0.0
    at: int = 0
    """The first sample that does not end before ``now``, and its bounds."""
    begin: float = float("inf")
    end: float = float("-inf")
    ends: list[float] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)


class TimeAttribution:
    """One trace. ``bounds``: (begin, end) of every sample in order, seconds; they do not overlap."""

    def __init__(
        self, names: Sequence[EventName], bounds: Sequence[tuple[float, float]], main: int, *, cards: bool
    ) -> None:
        self._names = names
        self._begins = [begin for begin, _ in bounds]
        self._ends = [end for _, end in bounds]
        self._main = main
        self._threads: dict[int, _ThreadState] = {}
        self._activities: list[Activity] = []
        self._spent: list[array[float]] = []
        self._numbers: dict[Activity, int] = {}
        self._children: dict[tuple[int, int], int] = {}
        self._roots: dict[str, int] = {}
        self._of_external: array[int] | None = array("i") if cards else None
        self._zeros = bytes(8 * len(bounds))
        self.folded = False
        """There were more activities than could be kept apart."""

    def take(self, events: Events) -> None:
        """Events in order of their beginning, none before those of the call before."""
        names, children, threads = self._names, self._children, self._threads
        columns = (events[name].tolist() for name in ("start", "end", "name", "thread", "external"))
        for start, end, name, thread, external in zip(*columns, strict=True):
            if names[name].card:
                self._on_card(names[name], start, end, external)
                continue
            state = threads.get(thread)
            if state is None:
                state = threads[thread] = _ThreadState(MAIN if thread == self._main else THREAD, start)
            self._advance(state, start)
            parent = state.nodes[-1] if state.nodes else self._root(state, start)
            node = children.get((parent, name))
            if node is None:
                node = children[parent, name] = self._number(_within(self._activities[parent], names[name]))
            state.ends.append(end)
            state.nodes.append(node)
            if external >= 0 and self._of_external is not None:
                self._note_external(external, node)

    def result(self) -> dict[Activity, array[float]]:
        """Seconds by activity and sample."""
        for state in self._threads.values():
            self._advance(state, float("inf"))
        return {a: spent for a, spent in zip(self._activities, self._spent, strict=True) if any(spent)}

    def _advance(self, state: _ThreadState, to: float) -> None:
        """Close what ends before ``to``, and give the time up to ``to`` to what is open.

        This runs for every event; most are over within the sample they began in, which is done here.
        """
        ends, nodes, spent, now = state.ends, state.nodes, self._spent, state.now
        limit = to + TOUCHING_S
        while ends and ends[-1] <= limit:
            end, node = ends.pop(), nodes.pop()
            if end > now:
                if state.begin <= now and end <= state.end:
                    spent[node][state.at] += end - now
                else:
                    self._give(state, node, now, end)
                now = end
        if now < to < float("inf"):
            node = nodes[-1] if nodes else self._root(state, now) if state.on == MAIN else -1
            if node >= 0 and state.begin <= now and to <= state.end:
                spent[node][state.at] += to - now
            elif node >= 0:
                self._give(state, node, now, to)
            now = to
        state.now = now

    def _give(self, state: _ThreadState, node: int, now: float, to: float) -> None:
        """The time from ``now`` to ``to``, in whichever samples it lies."""
        begins, ends, spent, at = self._begins, self._ends, self._spent[node], state.at
        count = len(ends)
        while at < count and ends[at] <= now:
            at += 1
        state.at = at
        while at < count and begins[at] < to:
            spent[at] += min(ends[at], to) - max(begins[at], now)
            if ends[at] > to:
                break
            at += 1
        if state.at < count:
            state.begin, state.end = begins[state.at], ends[state.at]
        else:
            state.begin, state.end = float("inf"), float("-inf")

    def _on_card(self, meant: EventName, start: float, end: float, external: int) -> None:
        at = bisect_right(self._begins, start) - 1
        if at < 0 or start >= self._ends[at]:
            return
        launched = self._of_external
        parent = launched[external] if launched is not None and 0 <= external < len(launched) else -1
        source = self._activities[parent] if parent >= 0 else None
        activity = Activity(
            source.where if source else None,
            source.called if source else "",
            meant.text,
            meant.phase or (source.phase if source else Phase.COMPUTE),
            WAITING if meant.collective else OWN,
            CARD,
        )
        self._spent[self._number(activity)][at] += end - start

    def _root(self, state: _ThreadState, now: float) -> int:
        """Where a thread begins: backward on another thread belongs to the line that called it."""
        main = self._threads.get(self._main)
        if state.on == THREAD and main is not None and main.nodes and main.ends[-1] > now:
            above = self._activities[main.nodes[-1]]
            if above.operation.startswith(BACKWARD_NAME):
                return self._number(replace(above, on=THREAD))
        if state.on not in self._roots:
            self._roots[state.on] = self._number(Activity(None, "", "", Phase.OTHER, OWN, state.on))
        return self._roots[state.on]

    def _number(self, activity: Activity) -> int:
        number = self._numbers.get(activity)
        if number is not None:
            return number
        if (len(self._activities) + 1) * len(self._zeros) > 8 * MAX_CELLS:
            self.folded = True
            activity = Activity(None, "", "(others)", Phase.OTHER, activity.kind, activity.on)
            if activity in self._numbers:
                return self._numbers[activity]
        number = self._numbers[activity] = len(self._activities)
        self._activities.append(activity)
        self._spent.append(array("d", self._zeros))
        return number

    def _note_external(self, external: int, node: int) -> None:
        known = self._of_external
        if known is None or external >= MAX_EXTERNAL:
            return
        if external >= len(known):
            known.frombytes(b"\xff" * (4 * (external + 4096 - len(known))))
        known[external] = node


def _within(above: Activity, name: EventName) -> Activity:
    """What is done when an event of this name happens inside ``above``."""
    if name.silent:
        return above
    phase = above.phase if above.phase in _STICKY and not name.collective else name.phase or above.phase
    kind = WAITING if name.collective else DEVICE if name.device_wait and above.kind == OWN else above.kind
    if name.own:
        return Activity(name.where, "", "", phase, kind, above.on)
    called = name.text if not above.called or above.called.endswith(_WRAPPERS) else above.called
    return Activity(above.where, called, name.text, phase, kind, above.on)
