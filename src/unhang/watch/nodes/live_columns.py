"""The ranks of a snapshot of the run: the columns of one node are put behind those of another."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from unhang.watch.nodes.node_roster import NodeRoster
from unhang.watch.nodes.rank_digest import ACTIVITIES, DigestColumns, TextIndex
from unhang.wire.documents.live_state import MAX_GROUPS, STATES, GroupColumns, LiveState, RankColumns

_STATE_OF = [STATES.index(doing.value) for doing in ACTIVITIES]


class NodeColumns(NamedTuple):
    """The ranks of one node. ``hosts``: of each; ``now_ns``: by the clock of that node."""

    columns: DigestColumns
    hosts: Sequence[str]
    now_ns: int
    silent: bool = False


def with_remote_ranks(state: LiveState, roster: NodeRoster) -> LiveState:
    """``state`` with every rank any node reported."""
    now_ns = time.monotonic_ns()
    parts = [
        NodeColumns(
            node.columns,
            [node.name] * len(node.columns.rank),
            now_ns + (node.ahead_ns or 0),
            node.silent_s(now_ns) is not None,
        )
        for node in roster.met()
        if node.columns is not None
    ]
    return with_ranks(state, parts) if parts else state


def with_ranks(state: LiveState, parts: Iterable[NodeColumns]) -> LiveState:
    """``state`` with the ranks of these nodes."""
    hosts, places, labels = TextIndex(state.run.nodes), TextIndex(state.places), TextIndex(state.labels)
    ranks: dict[str, list[Any]] = {name: list(getattr(state.ranks, name)) for name in RankColumns.__struct_fields__}
    groups = {group.name: group for group in state.groups}
    for part in parts:
        for name, column in _live_columns(part, hosts, places, labels).items():
            ranks[name] += column
        _add_groups(groups, part.columns)
    largest = sorted(groups.values(), key=lambda group: (-len(group.rank), group.name))[:MAX_GROUPS]
    return msgspec.structs.replace(
        state,
        run=msgspec.structs.replace(state.run, nodes=hosts.texts()),
        ranks=msgspec.convert(ranks, RankColumns),
        places=places.texts(),
        labels=labels.texts(),
        groups=largest,
    )


def _live_columns(part: NodeColumns, hosts: TextIndex, places: TextIndex, labels: TextIndex) -> dict[str, list[Any]]:
    columns = part.columns
    place_of, label_of = list(map(places.number, columns.places)), list(map(labels.number, columns.labels))
    return {
        "rank": columns.rank,
        "node": list(map(hosts.number, part.hosts)),
        "state": [STATES.index("silent") if part.silent else _STATE_OF[doing] for doing in columns.doing],
        "phase": columns.phase,
        "label": [label_of[at] if at >= 0 else -1 for at in columns.label],
        "place": [place_of[at] if at >= 0 else -1 for at in columns.place],
        "step": columns.step,
        "step_s": [round(ms / 1000, 4) if ms > 0 else -1.0 for ms in columns.step_ms],
        "still_s": [_age_s(at_ns, part.now_ns) for at_ns in columns.still_ns],
        "waits_s": [_age_s(at_ns, part.now_ns) for at_ns in columns.waits_ns],
        "beat_s": [_age_s(at_ns, part.now_ns) for at_ns in columns.beat_ns],
    }


def _age_s(since_ns: int, now_ns: int) -> float:
    """For a column; -1 where there is nothing to tell."""
    return round(max(0, now_ns - since_ns) / 1e9, 1) if since_ns > 0 else -1.0


def _add_groups(groups: dict[str, GroupColumns], columns: DigestColumns) -> None:
    for part in columns.groups:
        known = groups.setdefault(part.name, GroupColumns(part.name, part.backend, part.size, [], [], []))
        known.rank.extend(part.rank)
        known.enqueued.extend(part.enqueued)
        known.completed.extend(part.completed)
