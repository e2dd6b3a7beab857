"""Keep equal values of many recordings once: 16,384 ranks name the same groups, stacks and signatures."""

from __future__ import annotations

from typing import Any, Protocol

from unhang.evidence.flight_recorder.columns import SharedTables
from unhang.evidence.items import GroupConfig, RecorderDump
from unhang.findings import Unread


class _Sharer(Protocol):
    def __call__(self, value: Any, /) -> Any: ...


def intern_dumps(items: list[RecorderDump | Unread], shared: SharedTables) -> list[RecorderDump | Unread]:
    """``items`` of one batch with their equal values replaced by those of earlier batches.

    Within a batch equal values are one object already (a worker shares them), so each is compared once.
    """
    known: dict[int, Any] = {}

    def one(value: Any) -> Any:
        found = known.get(id(value))
        if found is None:
            found = known[id(value)] = (shared.one(value), value)  # the key's object must live as long as the key
        return found[0]

    for item in items:
        if isinstance(item, RecorderDump):
            _intern_dump(item, one)
    return items


def _intern_dump(recording: RecorderDump, one: _Sharer) -> None:
    entries = recording.entries
    entries.stacks = tuple(map(one, entries.stacks))
    entries.signatures = tuple(map(one, entries.signatures))
    entries.group_names = one(entries.group_names)
    recording.groups = {key: _shared_config(config, one) for key, config in recording.groups.items()}


def _shared_config(config: GroupConfig, one: _Sharer) -> GroupConfig:
    shared: GroupConfig = one(config)
    return shared
