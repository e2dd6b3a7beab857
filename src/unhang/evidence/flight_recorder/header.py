"""What a dump holds: its entries, and around them version, groups and their status."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from unhang.evidence.flight_recorder.columns import EntryColumns, SharedTables, int64_or_default
from unhang.evidence.items import GroupConfig, GroupStatus
from unhang.knowledge import numbers

_RANKS: Final = re.compile(r"\s*[\[(]?[\d,\s]*[\])]?\s*")
KNOWN_KEYS: Final = frozenset(("version", "pg_config", "pg_status", "entries", "nccl_version", "comm_lib_version"))


@dataclass(slots=True)
class Header:
    """The dump without its entries."""

    format_version: str = ""
    library_version: str = ""
    groups: dict[str, GroupConfig] = field(default_factory=dict)
    status: dict[str, GroupStatus] = field(default_factory=dict)


@dataclass(slots=True)
class ParsedDump:
    """A dump without its source, rank and file time. ``cut_at``: the byte where a torn file ends; ``dropped``: entries
    left unread."""

    header: Header
    columns: EntryColumns
    whole: bool
    dropped: int | None = None
    cut_at: int | None = None


def read_header(root: Any, shared: SharedTables) -> Header:
    """The header of the outermost dict ``root`` (the bare list of torch 2.2 has none)."""
    if not isinstance(root, dict):
        return Header()
    library = _text(root.get("comm_lib_version")) or _text(root.get("nccl_version"))
    return Header(
        _text(root.get("version")), library, _groups(root.get("pg_config"), shared), _status(root.get("pg_status"))
    )


def _text(value: Any) -> str:
    return value[:200] if type(value) is str else ""


def _groups(raw: Any, shared: SharedTables) -> dict[str, GroupConfig]:
    groups: dict[str, GroupConfig] = {}
    for key, config in raw.items() if isinstance(raw, dict) else ():
        if not isinstance(config, dict):
            continue
        name = config["name"] if type(config.get("name")) is str else _key(key)
        ranks = read_ranks(config.get("ranks"), shared)
        if name or ranks is not None:  # Gloo writes one nameless group without ranks: that says nothing
            description = _text(config.get("desc"))
            # members are compared by identity: hashing thousands of ranks for every dump would be slow
            groups[name] = shared.configs.setdefault(
                (name, description, id(ranks)), GroupConfig(name, description, ranks)
            )
    return groups


def read_ranks(raw: Any, shared: SharedTables) -> tuple[int, ...] | None:
    """The members of a group from ``"[0, 1]"`` or a list; None when there are none or they cannot be read."""
    if type(raw) is str:
        return _ranks_of_text(raw, shared)
    if (
        isinstance(raw, list | tuple)
        and raw
        and all(type(r) is int and 0 <= r < numbers.MAX_RANKS for r in raw[: numbers.MAX_RANKS])
    ):
        return shared.one(tuple(raw[: numbers.MAX_RANKS]))  # type: ignore[no-any-return]
    return None


def _ranks_of_text(raw: str, shared: SharedTables) -> tuple[int, ...] | None:
    known = shared.ranks.get(raw)
    if known is not None:
        return known
    if len(raw) > 12 * numbers.MAX_RANKS or raw.count(",") >= numbers.MAX_RANKS or _RANKS.fullmatch(raw) is None:
        return None
    told = [numbers.rank(word) for word in re.findall(r"\d+", raw)]
    ranks = tuple(rank for rank in told if rank is not None)
    if not ranks or len(ranks) < len(told):
        return None
    return shared.ranks.setdefault(raw, ranks)


def _status(raw: Any) -> dict[str, GroupStatus]:
    status: dict[str, GroupStatus] = {}
    for key, value in raw.items() if isinstance(raw, dict) else ():
        if isinstance(value, dict) and (one := _one_status(_key(key), value)) is not None:
            status[one.pg_id] = one
    return status


def _key(raw: Any) -> str:
    # another key than a text or a small number could be costly to spell
    return raw if type(raw) is str else str(int64_or_default(raw, ""))


def _one_status(pg_id: str, raw: Mapping[str, Any]) -> GroupStatus | None:
    told = [_number(raw.get(f"last_{step}_collective")) for step in ("enqueued", "started", "completed")]
    enqueued, started, completed = told
    if enqueued is None or completed is None:
        return None
    return GroupStatus(pg_id, enqueued, -1 if started is None else started, completed)


def _number(value: Any) -> int | None:
    # the JSON dump writes these numbers as text
    if type(value) is str and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    number = int64_or_default(value, None)
    return number if isinstance(number, int) else None
