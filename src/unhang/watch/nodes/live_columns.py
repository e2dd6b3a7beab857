"""The ranks of other nodes in a snapshot of the run: their columns are put behind our own."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from unhang.watch.nodes.node_roster import NodeRoster, RemoteNode
from unhang.watch.nodes.rank_digest import ACTIVITIES, DigestColumns
from unhang.watch.reporting.live_snapshot import age_s
from unhang.wire.documents.live_state import MAX_GROUPS, STATES, GroupColumns, LiveState, RankColumns

_STATE_OF = [STATES.index(doing.value) for doing in ACTIVITIES]


def with_remote_ranks(state: LiveState, roster: NodeRoster) -> LiveState:
    """``state`` with every rank any node reported."""
    nodes = [node for node in roster.met() if node.columns is not None]
    if not nodes:
        return state
    now_ns = time.monotonic_ns()
    hosts, places, labels = list(state.run.nodes), list(state.places), list(state.labels)
    ranks: dict[str, list[Any]] = {name: list(getattr(state.ranks, name)) for name in RankColumns.__struct_fields__}
    groups = {group.name: group for group in state.groups}
    for node in nodes:
        assert node.columns is not None
        _add(ranks, node, node.columns, (len(hosts), len(places), len(labels)), now_ns)
        hosts.append(node.name)
        places += node.columns.places
        labels += node.columns.labels
        _add_groups(groups, node.columns)
    largest = sorted(groups.values(), key=lambda group: (-len(group.rank), group.name))[:MAX_GROUPS]
    return msgspec.structs.replace(
        state,
        run=msgspec.structs.replace(state.run, nodes=hosts),
        ranks=msgspec.convert(ranks, RankColumns),
        places=places,
        labels=labels,
        groups=largest,
    )


def _add(
    ranks: dict[str, list[Any]], node: RemoteNode, columns: DigestColumns, offsets: tuple[int, int, int], now_ns: int
) -> None:
    host, place, label = offsets
    ours_ns = now_ns + (node.ahead_ns or 0)
    silent = node.silent_s(now_ns) is not None
    more: dict[str, list[Any]] = {
        "rank": columns.rank,
        "node": [host] * len(columns.rank),
        "state": [STATES.index("silent") if silent else _STATE_OF[doing] for doing in columns.doing],
        "phase": columns.phase,
        "label": [at + label if at >= 0 else -1 for at in columns.label],
        "place": [at + place if at >= 0 else -1 for at in columns.place],
        "step": columns.step,
        "step_s": [round(ms / 1000, 4) if ms > 0 else -1.0 for ms in columns.step_ms],
        "still_s": [age_s(at_ns, ours_ns) for at_ns in columns.still_ns],
        "waits_s": [age_s(at_ns, ours_ns) for at_ns in columns.waits_ns],
        "beat_s": [age_s(at_ns, ours_ns) for at_ns in columns.beat_ns],
    }
    for name, column in more.items():
        ranks[name] += column


def _add_groups(groups: dict[str, GroupColumns], columns: DigestColumns) -> None:
    for part in columns.groups:
        known = groups.setdefault(part.name, GroupColumns(part.name, part.backend, part.size, [], [], []))
        known.rank.extend(part.rank)
        known.enqueued.extend(part.enqueued)
        known.completed.extend(part.completed)
