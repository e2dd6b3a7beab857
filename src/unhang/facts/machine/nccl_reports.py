"""What NCCL's lines tell of a machine: which machines it takes for one, its shared memory, its transports."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from unhang.evidence.items import LogEvent
from unhang.facts.logs.log_statements import quote_event, quote_events
from unhang.facts.model import Facts, once
from unhang.findings import Evidence


@dataclass(frozen=True, slots=True)
class SharedHostIdentity:
    """``first`` on ``first_host`` and ``second`` on ``second_host`` exchange over P2P or shared memory."""

    first: int
    first_host: str
    second: int
    second_host: str
    evidence: Evidence


def shared_host_identity(facts: Facts) -> SharedHostIdentity | None:
    """The first channel inside a machine between ranks whose own lines name different hosts; None without one."""
    hosts: dict[int, str] = {}
    for event in facts.events_of("n.init_start", "n.init_complete", "n.boot"):
        rank = event.values.get("comm_rank", event.rank)
        if isinstance(rank, int) and event.host:
            hosts.setdefault(rank, event.host)
    for event in facts.events_of("n.channel"):
        if not str(event.values.get("path", "")).startswith(("P2P", "SHM")):
            continue
        first, second = event.values.get("from_rank", -1), event.values.get("to_rank", -1)
        if hosts.get(first) and hosts.get(second) and hosts[first] != hosts[second]:
            return SharedHostIdentity(first, hosts[first], second, hosts[second], quote_event(event))
    return None


NO_SUCH_FILE, NOT_PERMITTED = 2, 13
_OPENING = ("n.shmseg", "n.shmopen")


class SegmentFailure(str, enum.Enum):
    """What stood against it."""

    NO_ROOM = "no-room"
    NO_RIGHT = "no-right"
    NOT_THERE = "not-there"
    NO_NAME = "no-name"
    """The name that a peer sent is none: NCCL read another kind of handle as a path."""


def segment_failure(events: Iterable[LogEvent]) -> SegmentFailure:
    """Of lines about shared memory; a full /dev/shm where no line tells another reason."""
    opening = [event for event in events if event.kind in _OPENING]
    if any(_says(event, NOT_PERMITTED, "Permission denied") for event in opening):
        return SegmentFailure.NO_RIGHT
    absent = [event for event in opening if _says(event, NO_SUCH_FILE, "No such file")]
    if any(_is_no_name(event) for event in absent):
        return SegmentFailure.NO_NAME
    return SegmentFailure.NOT_THERE if absent else SegmentFailure.NO_ROOM


def _says(event: LogEvent, errno: int, words: str) -> bool:
    return event.values.get("errno") == errno or words in str(event.values.get("error", ""))


def _is_no_name(event: LogEvent) -> bool:
    path = str(event.values.get("path", ""))
    return event.kind == "n.shmseg" and (event.values.get("bytes") == 0 or not path.isascii() or path.endswith("nccl-"))


FAMILIES = ("P2P", "SHM", "NET")


@dataclass(frozen=True, slots=True)
class ChosenTransports:
    """``ways``: family (``P2P``, ``SHM``, ``NET/IB``, ``NET/Socket``) of the channels, the most used first.
    ``all_told``: lines of every rank were read."""

    ways: tuple[str, ...]
    multicast: bool
    all_told: bool
    evidence: tuple[Evidence, ...]

    def uses(self, family: str) -> bool:
        """Whether any channel goes that way."""
        return any(way.split("/")[0] == family for way in self.ways)


@once
def chosen_transports(facts: Facts) -> ChosenTransports | None:
    """None where no line of a channel was read; asked once."""
    channels = facts.events_of("n.channel")
    if not channels:
        return None
    counted = Counter(_family(event) for event in channels)
    told = {event.rank for event in channels if event.rank is not None}
    first: dict[str, LogEvent] = {}
    for event in channels:
        first.setdefault(_family(event), event)
    return ChosenTransports(
        tuple(way for way, _ in counted.most_common() if way),
        bool(facts.events_of("n.nvls_on")),
        facts.world_size is not None and told >= set(range(facts.world_size)),
        quote_events(first.values()),
    )


def _family(event: LogEvent) -> str:
    words = str(event.values.get("path", "")).split("/")
    if words[0] not in FAMILIES:
        return ""
    return "/".join(words[:2]) if words[0] == "NET" and len(words) > 1 else words[0]
