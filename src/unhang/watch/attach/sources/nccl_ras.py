"""NCCL's RAS service (NCCL 2.24 and later), spoken to directly: pip's NCCL brings no ``ncclras``.

The answer is text for people; what it says of ranks and processes is parsed into :class:`RasReport`. Counts that differ
between ranks mean a stall only when they do not move between two queries.
"""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from unhang.watch.attach.sources.bounded_requests import send_request
from unhang.watch.process_state.proc_processes import has_mapped
from unhang.watch.process_state.rank_processes import LiveRank

PORT = 28028
ANSWER_BYTES = 4 << 20
MAX_STATEMENTS = 2_000
_PROBLEM = re.compile(r"^\s*#(?P<group>\d+)-(?P<comm>\d+)\s+\((?P<hash>[0-9a-f]+)\)\s+(?P<kind>[A-Z]+)")
# One rank of its kind is told on one line; several get a line that counts them, and then one line each.
_RANK = re.compile(
    r"^\s*Rank (?P<rank>\d{1,9})(?P<alone> has launched up to operation \d{1,18}| has not launched any operations"
    r"| has status \w+| reported [^-]{1,200})? -- "
    r"(?:GPU (?P<gpu>\S+) managed by process (?P<pid>\d{1,9}) on node (?P<node>\S+)|\[process information not found\])"
)
_PROCESS = re.compile(r"Process (?P<pid>\d{1,9}) on node (?P<node>\S+) managing GPUs? (?P<gpu>.+)")
_LAUNCHED = re.compile(r"ha(?:s|ve) launched up to operation (?P<operation>\d{1,18})")
_NONE_LAUNCHED = re.compile(r"ha(?:s|ve) not launched any operations")
_COUNTS_OF = re.compile(r"Communicator ranks have different (?P<function>\w+) operation counts")
_JOB = re.compile(r"^\s*(?P<nodes>\d{1,9})\s+(?P<per_node>\d{1,9})\s+\S+\s+\d{1,9}\s+\d{1,9}\s*$", re.MULTILINE)
_SHAPE = re.compile(r"^NCCL version|Communicators\.\.\.|Job summary", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RasStatement:
    """One line of the answer that names a rank or process. ``operation``: launched up to it, where said; counted for
    each ``function`` (``AllReduce``) from NCCL 2.26 on, for all together before."""

    kind: str
    communicator: str
    rank: int | None
    pid: int | None
    node: str
    operation: int | None
    function: str = ""


@dataclass(frozen=True, slots=True)
class RasReport:
    """One answer. ``furthest``: launched operations of the rank that is ahead, by communicator and function."""

    text: str
    statements: tuple[RasStatement, ...]
    furthest: Mapping[tuple[str, str], int] = field(default_factory=dict)
    per_node: int | None = None
    """Processes of the job on each node, where all have as many."""

    @property
    def dead(self) -> tuple[RasStatement, ...]:
        """Processes that do not answer any more."""
        return tuple(s for s in self.statements if s.kind == "DEAD" and s.pid is not None)

    @property
    def dead_nodes(self) -> tuple[str, ...]:
        """Nodes of which no process answers any more. One dead process alone says nothing about its node."""
        on_node = Counter(s.node for s in self.dead)
        return tuple(
            sorted(node for node, count in on_node.items() if node and self.per_node and count >= self.per_node)
        )


def ras_address(ranks: Sequence[LiveRank]) -> tuple[str, int] | None:
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


def query_ras(address: tuple[str, int], *, limit_s: float) -> RasReport | None:
    """One query; None when nobody answers, or what answers is not RAS."""
    answer = send_request(*address, b"verbose status\n", limit_s=limit_s, most=ANSWER_BYTES)
    text = (answer or b"").decode(errors="replace")
    return parse(text) if _SHAPE.search(text) else None


def parse(text: str) -> RasReport:
    """Read an answer; lines of unknown shape are kept in the text and otherwise passed over."""
    statements: list[RasStatement] = []
    furthest: dict[tuple[str, str], int] = {}
    kind, communicator, function, operation = "", "", "", None
    for line in text.splitlines():
        if len(statements) >= MAX_STATEMENTS:
            break
        if found := _PROBLEM.match(line):
            kind, communicator, function, operation = found["kind"], found["hash"], "", None
        elif line.strip() in _SECTIONS or "considered dead" in line:
            kind, operation = "DEAD" if "dead" in line.lower() else line.strip(), None
        elif found := _COUNTS_OF.search(line):
            function, operation = found["function"], None
        else:
            launched = _launched(line)
            operation = operation if launched is None else launched
            if launched is not None:
                key = communicator, function
                furthest[key] = max(furthest.get(key, 0), launched)
            if found := _RANK.search(line):
                where = int(found["pid"]) if found["pid"] else None, found["node"] or ""
                statements.append(RasStatement(kind, communicator, int(found["rank"]), *where, operation, function))
            elif found := _PROCESS.search(line):
                statements.append(RasStatement(kind, communicator, None, int(found["pid"]), found["node"], None))
    job = _JOB.search(text)
    return RasReport(text, tuple(statements), furthest, int(job["per_node"]) if job is not None else None)


_SECTIONS = ("DEAD", "INCOMPLETE", "TIMEOUT", "Errors", "Warnings")


def _launched(line: str) -> int | None:
    if found := _LAUNCHED.search(line):
        return int(found["operation"])
    return 0 if _NONE_LAUNCHED.search(line) else None


def ranks_behind(first: RasReport, second: RasReport) -> tuple[RasStatement, ...]:
    """Ranks that have launched fewer operations than others of their communicator, and launched none meanwhile.

    RAS counts collectives only, no sends and receives.
    """
    standing = set(first.statements) & set(second.statements)
    return tuple(
        s
        for s in second.statements
        if s in standing
        and s.operation is not None
        and s.operation < second.furthest.get((s.communicator, s.function), 0)
    )
