"""``torch.distributed.debug``: the index page on rank 0 names every rank's own server, which gives dumps and stacks.

Only servers that belong to processes of the job are asked, over loopback, whatever address the index page names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from unhang.watch.attach.sources.bounded_requests import http_body
from unhang.watch.process_state.rank_processes import LiveRank
from unhang.watch.process_state.sockets import listening_ports

PORT = 25999
"""Default of ``start_debug_server``; it has no variable of its own."""
PAGE_BYTES = 4 << 20
DUMP_BYTES = 64 << 20
LOOPBACK = "127.0.0.1"
_ADDRESS = re.compile(rb"rank(\d{1,9}):\s*b?['\"]?https?://[^\s'\"<>/]{1,255}:(\d{1,5})\b")


@dataclass(frozen=True, slots=True)
class DebugServerAnswer:
    """What one rank's server gave: a flight-recorder dump (JSON or pickle) and its Python stacks.

    ``empty``: it gave dumps, and none held a call.
    """

    dump: bytes | None
    stacks: bytes | None
    empty: bool = False


def ask_debug_server(
    ranks: Sequence[LiveRank], owned: Sequence[int], *, limit_s: float, port: int = PORT
) -> dict[int, DebugServerAnswer]:
    """Dumps and stacks by rank; empty when there is no such server.

    Args:
        owned: processes that belong to the job (ranks and their children): only their ports are spoken to.
    """
    ports = listening_ports(owned)
    if port not in ports:
        return {}
    page = http_body(LOOPBACK, port, "GET", "/tcpstore", limit_s=min(2.0, limit_s), most=PAGE_BYTES)
    wanted = {
        rank: number
        for rank, number in parse_rank_ports(page or b"").items()
        if ports.get(number) == next((r.pid for r in ranks if r.rank == rank), None)
    }
    return _ask_all(wanted, limit_s=limit_s)


def parse_rank_ports(page: bytes) -> dict[int, int]:
    """``{rank: port}`` from the index page's list of keys."""
    found = {int(rank): int(port) for rank, port in _ADDRESS.findall(page)}
    return {rank: port for rank, port in found.items() if 0 < port < 65536}


def _ask_all(wanted: Mapping[int, int], *, limit_s: float) -> dict[int, DebugServerAnswer]:
    def ask(port: int) -> DebugServerAnswer:
        def post(handler: str) -> bytes | None:
            return http_body(LOOPBACK, port, "POST", f"/handler/{handler}", limit_s=limit_s / 2, most=DUMP_BYTES)

        empty = False
        for handler in DUMP_HANDLERS:
            dump = post(handler)
            if dump and ENTRIES in dump:
                return DebugServerAnswer(dump, post("dump_traceback") or None)
            empty |= dump is not None
        return DebugServerAnswer(None, post("dump_traceback") or None, empty)

    if not wanted:
        return {}
    with ThreadPoolExecutor(max_workers=min(8, len(wanted))) as pool:
        answers = list(pool.map(ask, wanted.values()))
    return dict(zip(wanted, answers, strict=True))


DUMP_HANDLERS = ("dump_nccl_trace_pickle", "fr_trace_json", "dump_nccl_trace_json")
"""NCCL's recorder, the one of every other backend, and NCCL's where it is written as JSON only."""
ENTRIES = b"entries"
"""Without calls a dump has no such key."""
