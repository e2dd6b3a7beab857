"""Ranks of different machines that NCCL connects as if they stood on one."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.facts.logs.log_statements import quote_event
from unhang.facts.model import Facts
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
