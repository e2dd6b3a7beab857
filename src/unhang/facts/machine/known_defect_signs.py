"""What a known defect of a version needs, looked for in what a job printed (``Sign``, ``knowledge.job.versions``)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from unhang.facts.collective_operations import canonical_operation
from unhang.facts.logs.logged_values import logged_settings
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.model import Facts
from unhang.knowledge.thresholds import whole_threshold

START_POSITIONS = whole_threshold("known_defect_signs.start_positions")
_SOCKET_FRAMES = {"ncclSocketTest", "netRecvProxy", "socketProgress"}


def defect_signs(facts: Facts) -> frozenset[str]:
    """The signs that this job shows."""
    return frozenset(sign for sign, look in _SIGN_TESTS.items() if look(facts))


def _stalled(facts: Facts) -> bool:
    return logged_waits(facts) is not None or bool(facts.events_of("look.native")) or bool(facts.all_joined_stalls)


def _at_start(facts: Facts) -> bool:
    logged = logged_waits(facts)
    positions = [p for p in logged.positions if p is not None] if logged is not None else []
    if positions:
        return max(positions) <= START_POSITIONS
    started = {e.values.get("comm") for e in facts.events_of("n.init_start")}
    return bool(started - {e.values.get("comm") for e in facts.events_of("n.init_complete")})


def _all_to_all(facts: Facts) -> bool:
    logged = logged_waits(facts)
    return logged is not None and any(canonical_operation(w.operation).startswith("all_to_all") for w in logged.waits)


def _sockets(facts: Facts) -> bool:
    if any(e.values.get("function") in _SOCKET_FRAMES for e in facts.events_of("look.native")):
        return True
    return any("socket" in str(e.values.get("network", "")).lower() for e in facts.events_of("n.net"))


def _non_blocking(facts: Facts) -> bool:
    return _set(facts, "TORCH_NCCL_USE_COMM_NONBLOCKING", "1") or any(
        "init_process_group" in source.text and "device_id=" in source.text for source in facts.sources.values()
    )


def _set(facts: Facts, name: str, value: str) -> bool:
    setting = logged_settings(facts).get(name)
    return setting is not None and setting.value == value


def _unequal_nodes(facts: Facts) -> bool:
    on_host: dict[str, set[int]] = defaultdict(set)
    for event in facts.events_of("n.init_start", "n.init_complete"):
        rank = event.values.get("comm_rank")
        if event.host and isinstance(rank, int):
            on_host[event.host].add(rank)
    return len({len(ranks) for ranks in on_host.values()}) > 1


_SIGN_TESTS: dict[str, Callable[[Facts], bool]] = {
    "stalled": _stalled,
    "at-start": _at_start,
    "all-to-all": _all_to_all,
    "nvls": lambda facts: bool(facts.events_of("n.nvls_on")) and not _set(facts, "NCCL_NVLS_ENABLE", "0"),
    "sockets": _sockets,
    "non-blocking": _non_blocking,
    "more-than-80-ranks": lambda facts: (facts.world_size or 0) > 80,
    "unequal-nodes": _unequal_nodes,
    "aarch64": lambda facts: bool(facts.events_of("v.machine")),
    "all-joined": lambda facts: bool(facts.all_joined_stalls),
}
