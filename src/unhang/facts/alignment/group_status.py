"""Which group a status belongs to: its key is local to the process, so it is found through entries or peers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from unhang.evidence.items import GroupStatus, RecorderDump


def statuses_by_group(recordings: Mapping[int, RecorderDump]) -> dict[int, dict[str, tuple[GroupStatus, bool]]]:
    """For each rank: group name → (status, inferred). A status that fits no group is left out.

    A dump without entries (nothing pending, or the recorder was off) does not name its statuses. Ranks of one job
    make their groups in the same order, so the key means the same kind of group on peers that hold the same keys.
    """
    own = {rank: _names_from_entries(recording) for rank, recording in recordings.items()}
    roles = _roles(recordings, own)
    told = {key for names in own.values() for key in names}
    one_role = len({Role(r.status) for r in recordings.values()}) == 1
    result: dict[int, dict[str, tuple[GroupStatus, bool]]] = {}
    for rank, recording in recordings.items():
        from_peers = _PeerGroupNames(rank, recording, roles)
        named: dict[str, tuple[GroupStatus, bool]] = {}
        for key, status in recording.status.items():
            name = own[rank].get(key)
            if name is not None:
                named[name] = (status, False)
                continue
            name = from_peers.name_of(key) or _by_key(key, recording, one_role=one_role, told=told)
            if name is not None and name not in named:
                named[name] = (status, True)
        result[rank] = named
    return result


def _names_from_entries(recording: RecorderDump) -> dict[str, str]:
    entries = recording.entries
    if not len(entries):
        return {}
    pairs = set(zip(entries.pg_id.tolist(), entries.group.tolist(), strict=True))
    return {str(pg): entries.group_names[group][0] for pg, group in sorted(pairs) if pg >= 0}


def _by_key(key: str, recording: RecorderDump, *, one_role: bool, told: set[str]) -> str | None:
    """With the recorder off nobody names the statuses: the default group is made first, and where all ranks hold the
    same keys a key means the same group."""
    if key in told:
        return None
    config = recording.groups.get(key)
    if key == "0" and (config is None or config.description == "default_pg"):
        return "0"
    return f"pg_id {key}" if one_role else None


Role = frozenset[str]
Descriptions = Mapping[str, Counter[str]]
"""By key: how it is described, and how often."""


def _roles(recordings: Mapping[int, RecorderDump], own: Mapping[int, Mapping[str, str]]) -> dict[Role, Descriptions]:
    """How peers with the same set of keys describe each key."""
    seen: dict[Role, dict[str, Counter[str]]] = {}
    for rank, recording in recordings.items():
        of_role = seen.setdefault(Role(recording.status), defaultdict(Counter))
        descriptions = dict(recording.entries.group_names)
        for key, name in own[rank].items():
            of_role[key][descriptions.get(name, name)] += 1
    return dict(seen)


class _PeerGroupNames:
    """The groups of one rank, as its peers describe theirs."""

    def __init__(self, rank: int, recording: RecorderDump, roles: Mapping[Role, Descriptions]) -> None:
        self._told = roles.get(Role(recording.status), {})
        self._groups: dict[str, list[str]] = defaultdict(list)
        for group in recording.groups.values():
            if group.ranks is None or rank in group.ranks:
                for description in {group.description, group.name}:
                    self._groups[description].append(group.name)

    def name_of(self, key: str) -> str | None:
        descriptions = self._told.get(key)
        if not descriptions or len(descriptions) != 1:
            return None
        mine = self._groups.get(next(iter(descriptions)), [])
        return mine[0] if len(mine) == 1 else None
