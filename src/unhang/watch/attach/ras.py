"""NCCL's RAS service (NCCL 2.24 and later), spoken to directly: pip's NCCL brings no ``ncclras``.

The answer is text for people; what it says of ranks and processes is parsed into :class:`RasReport`. Counts that differ
between ranks mean a stall only when they do not move between two queries.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from unhang.watch.attach.exchange import exchange
from unhang.watch.attach.machine import has_mapped
from unhang.watch.attach.ranks import LiveRank

PORT = 28028
ANSWER_BYTES = 4 << 20
MOST_STATEMENTS = 2_000
_PROBLEM = re.compile(r"^\s*#(?P<group>\d+)-(?P<comm>\d+)\s+\((?P<hash>[0-9a-f]+)\)\s+(?P<kind>[A-Z]+)")
_RANK = re.compile(
    r"Rank (?P<rank>\d{1,9}) -- GPU (?P<gpu>\S+) managed by process (?P<pid>\d{1,9}) on node (?P<node>\S+)"
)
_PROCESS = re.compile(r"Process (?P<pid>\d{1,9}) on node (?P<node>\S+) managing GPUs? (?P<gpu>.+)")
_LAUNCHED = re.compile(r"(?P<count>\d+) ranks? ha(?:s|ve) launched up to operation (?P<operation>\d+)")
_SHAPE = re.compile(r"^NCCL version|Communicators\.\.\.|Job summary", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RasStatement:
    """One line of the answer that names a rank or process. ``operation``: launched up to it, where said."""

    kind: str
    communicator: str
    rank: int | None
    pid: int | None
    node: str
    operation: int | None


@dataclass(frozen=True, slots=True)
class RasReport:
    """One answer. ``dead_nodes``: nodes of processes that RAS considers dead or unreachable."""

    text: str
    statements: tuple[RasStatement, ...]

    @property
    def dead_nodes(self) -> tuple[str, ...]:
        """Nodes on which a process does not answer any more."""
        return tuple(sorted({s.node for s in self.statements if s.kind in ("DEAD", "INCOMPLETE") and s.node}))


def address_of(ranks: Sequence[LiveRank]) -> tuple[str, int] | None:
    """Where RAS of this job listens on this machine; None where it was switched off or no rank uses NCCL."""
    for rank in ranks:
        environment = rank.environment
        if environment.get("NCCL_RAS_ENABLE", "1") == "0":
            return None
        named = environment.get("NCCL_RAS_ADDR", "")
        if not named and not has_mapped(rank.pid, "libnccl"):
            continue
        host, _, port = named.rpartition(":")
        host = host.strip("[]") or "localhost"
        number = int(port) if port.isdigit() and 0 < int(port) < 65536 else PORT
        return (host, number) if _is_here(host) else None
    return None


def _is_here(host: str) -> bool:
    """An address of this machine: RAS listens beside its rank, and nothing of ours leaves the machine."""
    if host == "localhost":
        return True
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with suppress(OSError, ValueError), socket.socket(family, socket.SOCK_DGRAM) as trial:
        socket.inet_pton(family, host)  # names are not looked up: that may take long
        trial.bind((host, 0))
        return True
    return False


def ask_ras(address: tuple[str, int], *, limit_s: float) -> RasReport | None:
    """One query; None when nobody answers, or what answers is not RAS."""
    answer = exchange(*address, b"verbose status\n", limit_s=limit_s, most=ANSWER_BYTES)
    text = (answer or b"").decode(errors="replace")
    return parse(text) if _SHAPE.search(text) else None


def parse(text: str) -> RasReport:
    """Read an answer; lines of unknown shape are kept in the text and otherwise passed over."""
    statements: list[RasStatement] = []
    kind, communicator, operation = "", "", None
    for line in text.splitlines():
        if len(statements) >= MOST_STATEMENTS:
            break
        if found := _PROBLEM.match(line):
            kind, communicator, operation = found["kind"], found["hash"], None
        elif "considered dead" in line:
            kind, operation = "DEAD", None
        elif found := _LAUNCHED.search(line):
            operation = int(found["operation"])
        elif found := _RANK.search(line):
            rank, pid = int(found["rank"]), int(found["pid"])
            statements.append(RasStatement(kind, communicator, rank, pid, found["node"], operation))
        elif found := _PROCESS.search(line):
            statements.append(RasStatement(kind, communicator, None, int(found["pid"]), found["node"], operation))
    return RasReport(text, tuple(statements))


def behind(first: RasReport, second: RasReport) -> tuple[RasStatement, ...]:
    """Ranks that have launched fewer operations than others of their communicator, and launched none meanwhile."""
    standing = set(first.statements) & set(second.statements)
    furthest: dict[str, int] = {}
    for communicator, operation in _launched(second):
        furthest[communicator] = max(furthest.get(communicator, 0), operation)
    return tuple(
        s
        for s in second.statements
        if s in standing and s.operation is not None and s.operation < furthest.get(s.communicator, 0)
    )


def _launched(report: RasReport) -> list[tuple[str, int]]:
    found, communicator = [], ""
    for line in report.text.splitlines():
        if problem := _PROBLEM.match(line):
            communicator = problem["hash"]
        elif launched := _LAUNCHED.search(line):
            found.append((communicator, int(launched["operation"])))
    return found
