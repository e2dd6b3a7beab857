"""What the machines were doing while ranks waited: signs that something outside the program holds a rank up.

From ``machine/series.jsonl``. A sign is typed and neutral: whether it explains anything is for detectors to say. A
rank's card, processors and control group are compared with those of its peers: what is the same for all blames nobody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from statistics import median
from typing import TYPE_CHECKING, Any

from unhang.facts.model import Facts, once
from unhang.findings import Evidence, Source
from unhang.knowledge.thresholds import threshold, whole_threshold

if TYPE_CHECKING:
    from unhang.wire.documents.machine_series import GpuSample, MachineRow, RankUse

MOVING_S = threshold("machine_state.moving_s")
"""Of a job that moves, so much counts."""
MOSTLY = threshold("machine_state.mostly")
SLOWED = ("hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown")
LESS_CLOCK = threshold("machine_state.less_clock")
BUSY_PERCENT = whole_threshold("machine_state.busy_percent")
SPINS_PERCENT = whole_threshold("machine_state.spins_percent")
THROTTLED = threshold("machine_state.throttled")
"""Share of the periods in which a control group used up its processors."""
MIN_PERIODS = whole_threshold("machine_state.min_periods")
LESS_THAN_PEERS = threshold("machine_state.less_than_peers")
"""Of its time with a processor, against what its peers have of theirs."""
WAITS_FOR_IO = threshold("machine_state.waits_for_io")
DISK_BUSY = threshold("machine_state.disk_busy")
FULL_SHARE = threshold("machine_state.full_share")
FULL_BYTES = whole_threshold("machine_state.full_bytes")
SILENT_S = threshold("machine_state.silent_s")
MANY_ERRORS = whole_threshold("machine_state.many_errors")
SENT_AGAIN = whole_threshold("machine_state.sent_again")
SENT_AGAIN_SHARE = threshold("machine_state.sent_again_share")
MEMORY_STALLS = threshold("machine_state.memory_stalls")
LOOKS = whole_threshold("machine_state.looks")
"""Fewer tell nothing of what stands only in some of them."""
STORAGE = ("disk-silent", "disk-full", "disk-busy", "rank-blocked", "io-pressure")
NETWORK = ("link-lost", "link-errors", "sent-again")
OF_RANK = ("card-slowed", "card-clocks", "card-shared", "cpu-limit", "cpu-starved", "cpu-shared", "memory-stalls")


@dataclass(frozen=True, slots=True)
class MachineSign:
    """One thing a machine did. ``rank``: whom it concerns, more than its peers; None for the whole node.

    ``values`` by kind: see the function that finds it.
    """

    kind: str
    node: str
    evidence: Evidence
    rank: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Window:
    """Samples of one node that count, oldest first; ``path`` is their file."""

    node: str
    path: str
    rows: tuple[MachineRow, ...]

    def sign(self, kind: str, row: MachineRow, text: str, rank: int | None = None, **values: Any) -> MachineSign:
        return MachineSign(kind, self.node, Evidence(Source(self.path, row.line), text, rank), rank, values)

    def median(self, tell: Callable[[MachineRow], float | None]) -> float | None:
        """Over the time that the samples cover: one that was asked for as a wait began covers less than the next."""
        told = sorted((value, row.for_s or 1.0) for row in self.rows if (value := tell(row)) is not None)
        until_s = accumulate(for_s for _, for_s in told)
        half_s = sum(for_s for _, for_s in told) / 2
        return next((value for (value, _), so_far_s in zip(told, until_s, strict=True) if so_far_s >= half_s), None)


def signs_of_rank(facts: Facts, rank: int) -> tuple[MachineSign, ...]:
    """What holds this rank up and not its peers."""
    return tuple(s for s in machine_signs(facts) if s.rank == rank and s.kind in OF_RANK)


def storage_signs(facts: Facts, ranks: Iterable[int]) -> tuple[MachineSign, ...]:
    """What the storage of these ranks' nodes did, and which of them waited for it."""
    wanted = tuple(ranks)
    nodes = {node for rank in wanted for node in _nodes_of(facts, rank)}
    signs = [s for s in machine_signs(facts) if s.kind in STORAGE and s.node in nodes]
    return tuple(s for s in signs if s.rank is None or s.rank in wanted)


def network_signs(facts: Facts) -> tuple[MachineSign, ...]:
    """What the network did, on every node."""
    return tuple(s for s in machine_signs(facts) if s.kind in NETWORK)


def spinning_cards(facts: Facts) -> tuple[MachineSign, ...]:
    """Ranks whose card is busy all the time while nothing moves."""
    return tuple(s for s in machine_signs(facts) if s.kind == "spins")


def _nodes_of(facts: Facts, rank: int) -> set[str]:
    rows = [row for series in facts.machines for row in series.rows[-20:]]
    told = {row.node for row in rows if any(use.rank == rank for use in row.ranks)}
    host = facts.ranks[rank].host if rank in facts.ranks else None
    return told or ({host} if host else set())


@once
def machine_signs(facts: Facts) -> tuple[MachineSign, ...]:
    """All signs, of all nodes; asked once."""
    windows = _windows(facts)
    peers = [_usage_by_rank(window) for window in windows]
    everyone: dict[int, _RankUsage] = {rank: known for found in peers for rank, known in found.items()}
    found: list[MachineSign] = []
    for window, mine in zip(windows, peers, strict=True):
        found += _storage_signs(window)
        found += _network_signs(window)
        found += _blocked(window)
        for rank, known in mine.items():
            others = [one for other, one in everyone.items() if other != rank]
            found += _card_signs(window, rank, known, others)
            found += _processor_signs(window, rank, known, others)
            if _is_stalled(facts) and (known.util or 0) >= SPINS_PERCENT:
                found.append(window.sign("spins", known.row, f"card {known.card_name}: {known.util:.0f} %", rank))
    return tuple(found)


def _is_stalled(facts: Facts) -> bool:
    return bool(facts.stalls or facts.all_joined_stalls)


def _windows(facts: Facts) -> list[_Window]:
    """The samples that tell of the time in question: since ranks began to wait, else the last minutes; none that came
    after the ranks were sampled, as a series that goes on has them when its run folder is read again."""
    rows: dict[str, list[tuple[str, MachineRow]]] = {}
    for series in facts.machines:
        for row in series.rows:
            rows.setdefault(row.node, []).append((series.source.path, row))
    began, ended = _span(facts)
    found = []
    for node, written in sorted(rows.items()):
        told = sorted((one for one in written if one[1].t_s <= ended), key=_time) or sorted(written, key=_time)
        last = told[-1][1].t_s
        kept = [one for one in told if began <= one[1].t_s - one[1].for_s / 2]
        if not kept:  # a node whose clock goes otherwise, or nothing tells the time: as long a while, its last
            length = ended - began if math.isfinite(ended - began) else MOVING_S
            kept = [one for one in told if one[1].t_s - one[1].for_s / 2 >= last - length] or told[-1:]
        path = kept[-1][0]
        found.append(_Window(node, path, tuple(row for where, row in kept if where == path)))
    return found


def _time(told: tuple[str, MachineRow]) -> float:
    return told[1].t_s


def _span(facts: Facts) -> tuple[float, float]:
    """From when to when it is about, seconds since the epoch: infinite where nothing tells."""
    taken = max((m.taken_s for m in facts.manifests if m.taken_s), default=math.inf)
    since = min((m.stalled_since_s for m in facts.manifests if m.stalled_since_s is not None), default=math.inf)
    if math.isfinite(since) and _is_stalled(facts):
        return since, taken
    return taken - MOVING_S, taken


@dataclass(frozen=True, slots=True)
class _RankUsage:
    """One rank over the window. ``slowed``: share of the samples in which its card's clocks were held down."""

    row: MachineRow
    """The last that tells of it."""
    starved: float | None
    card: GpuSample | None = None
    util: float | None = None
    clock: float | None = None
    slowed: float = 0.0
    limited: str = ""
    """The control group that mostly used up its processors."""

    @property
    def card_name(self) -> str:
        return f"{self.card.index} ({self.card.uuid})" if self.card is not None else ""


def _starved(rank: int, row: MachineRow) -> float | None:
    return next((use.starved for use in row.ranks if use.rank == rank), None)


def _busy(disk: str, row: MachineRow) -> float | None:
    return row.disk[disk].busy if disk in row.disk else None


def _usage_by_rank(window: _Window) -> dict[int, _RankUsage]:
    found: dict[int, _RankUsage] = {}
    last = {use.rank: (row, use) for row in window.rows for use in row.ranks}
    for rank, (row, use) in sorted(last.items()):
        starved = window.median(partial(_starved, rank))
        card = _card_of(row, use)
        if card is None:
            found[rank] = _RankUsage(row, starved, limited=_limiting(window, rank))
            continue
        seen = [one for r in window.rows for one in r.cards if one.uuid == card.uuid]
        utils = [one.util for one in seen if one.util is not None]
        clocks = [one.sm_mhz for one in seen if one.sm_mhz is not None]
        slowed = sum(bool(set(SLOWED) & set(one.throttle)) for one in seen) / max(1, len(seen))
        found[rank] = _RankUsage(
            row,
            starved,
            seen[-1],
            median(utils) if utils else None,
            median(clocks) if clocks else None,
            slowed,
            _limiting(window, rank),
        )
    return found


def _card_of(row: MachineRow, use: RankUse) -> GpuSample | None:
    """The card its process is on; where nobody tells, or it is on several, there is none to speak of."""
    if len(use.cards) != 1:
        return None
    return next((card for card in row.cards if card.uuid == use.cards[0]), None)


def _card_signs(window: _Window, rank: int, known: _RankUsage, others: list[_RankUsage]) -> Iterator[MachineSign]:
    """``card-slowed`` (card, reasons, temp_c, mhz, peers_mhz), ``card-clocks`` (card, mhz, peers_mhz),
    ``card-shared`` (card, pid, user, mem)."""
    card = known.card
    if card is None:
        return
    clocks = [one.clock for one in others if one.clock is not None and (one.util or 0) >= BUSY_PERCENT]
    peers = median(clocks) if clocks else None
    told = {"card": card.index, "uuid": card.uuid, "mhz": known.clock, "peers_mhz": peers, "temp_c": card.temp_c}
    alike = sum(one.slowed >= MOSTLY for one in others if one.card is not None)
    if known.slowed >= MOSTLY and alike * 2 < max(1, len(others)):
        reasons = [one for one in card.throttle if one in SLOWED] or ["clocks held down"]
        text = f"card {known.card_name}: {', '.join(reasons)}; {known.clock or 0:.0f} MHz, {card.temp_c} C"
        yield window.sign("card-slowed", known.row, text, rank, reasons=", ".join(reasons), **told)
    elif known.clock is not None and peers and (known.util or 0) >= BUSY_PERCENT and known.clock < LESS_CLOCK * peers:
        text = f"card {known.card_name}: {known.clock:.0f} MHz, {known.util:.0f} %"
        yield window.sign("card-clocks", known.row, text, rank, **told)
    strangers = [one for one in known.row.others if one.uuid and one.uuid == card.uuid]
    if strangers:
        one = max(strangers, key=lambda other: other.card_mem)
        text = f"card {known.card_name}: process {one.pid} of {one.user} user, {one.card_mem >> 20} MiB"
        yield window.sign(
            "card-shared", known.row, text, rank, pid=one.pid, user=one.user, mem_mib=one.card_mem >> 20, **told
        )


def _limiting(window: _Window, rank: int) -> str:
    """The group that used up its processors in most periods; empty where none did."""
    shares: dict[str, tuple[int, int]] = {}
    for row in window.rows:
        for name, group in row.cgroup.items():
            if rank in group.ranks and group.limit_cpus is not None:
                throttled, periods = shares.get(name, (0, 0))
                shares[name] = (throttled + group.throttled, periods + group.periods)
    worst = max(((one / all_, name) for name, (one, all_) in shares.items() if all_ >= MIN_PERIODS), default=(0.0, ""))
    return worst[1] if worst[0] >= THROTTLED else ""


def _processor_signs(window: _Window, rank: int, known: _RankUsage, others: list[_RankUsage]) -> Iterator[MachineSign]:
    """``cpu-limit`` (group, limit, percent), ``cpu-starved`` (percent, peers_percent, pid, user, cpus: of the greatest
    stranger or None; elsewhere: processors that others than the job used, of ``processors``), ``cpu-shared``
    (percent, peers_percent, pid, cpus: of who is bound to the same ``processors``, all ``together``),
    ``memory-stalls``."""
    told: dict[str, Any]
    starved = known.starved or 0.0
    peers = median([one.starved or 0.0 for one in others]) if others else 0.0
    if known.limited and sum(bool(one.limited) for one in others) * 2 < max(1, len(others)):
        groups = [row.cgroup[known.limited] for row in window.rows if known.limited in row.cgroup]
        share = sum(g.throttled for g in groups) / max(1, sum(g.periods for g in groups))
        text = f"control group {known.limited}: at its limit of {groups[-1].limit_cpus:g} processors in {share:.0%}"
        told = {"limit": groups[-1].limit_cpus, "percent": round(100 * share), "group": known.limited}
        yield window.sign("cpu-limit", known.row, text, rank, **told)
    elif others and 1 - starved <= LESS_THAN_PEERS * (1 - peers):
        told = {"percent": round(100 * starved), "peers_percent": round(100 * peers), "pid": None}
        text = f"rank {rank}: ready to run and without a processor {starved:.0%} of the time"
        mine = next(use for use in known.row.ranks if use.rank == rank)
        strangers = [
            one for one in mine.beside or known.row.others if one.cpus > 0 and (mine.beside or not mine.processors)
        ]
        one = max(strangers, key=lambda other: other.cpus, default=None)
        if one is not None:
            told |= {"pid": one.pid, "user": one.user, "cpus": one.cpus, "together": sum(o.cpus for o in strangers)}
        cpu = known.row.cpu
        if mine.processors:
            told |= {"processors": mine.processors}
        elif cpu is not None:
            told |= {"elsewhere": max(0.0, cpu.busy - known.row.job_cpus), "processors": cpu.processors}
        yield window.sign("cpu-shared" if mine.beside else "cpu-starved", known.row, text, rank, **told)
    stalls = window.median(lambda row: row.pressure["memory"].some if "memory" in row.pressure else None)
    if stalls is not None and stalls >= MEMORY_STALLS and all(one.row.node != window.node for one in others):
        text = f"memory pressure: some {stalls:.0%}"
        yield window.sign("memory-stalls", known.row, text, rank, percent=round(100 * stalls))


def _storage_signs(window: _Window) -> Iterator[MachineSign]:
    """``disk-silent`` (path, seconds), ``disk-full`` (path, free_mib, size_mib), ``disk-busy`` (disk, path, percent,
    await_s), ``io-pressure`` (percent)."""
    last = window.rows[-1]
    for path, space in last.space.items():
        silent = max((r.space[path].unanswered_s for r in window.rows if path in r.space), default=0.0)
        if silent >= SILENT_S:
            text = f"{path}: no answer for {silent:.0f} s"
            yield window.sign("disk-silent", last, text, path=path, seconds=round(silent))
        full = space.free is not None and space.size and space.free < min(FULL_BYTES, FULL_SHARE * space.size)
        if full or space.files_free == 0:
            free = (space.free or 0) >> 20
            text = f"{path}: {free} of {space.size >> 20} MiB free"
            yield window.sign(
                "disk-full", last, text, path=path, use=space.use, free_mib=free, size_mib=space.size >> 20
            )
    waits = window.median(lambda row: row.pressure["io"].some if "io" in row.pressure else None) or 0.0
    # a save fills the page cache before the disk: as long as processes have waited, it was busy
    needed = min(DISK_BUSY, waits) if waits >= WAITS_FOR_IO else DISK_BUSY
    for name, disk in last.disk.items():
        busy = window.median(partial(_busy, name))
        if busy is not None and busy >= needed:
            text = f"{name}: busy {busy:.0%}, {disk.await_s:g} s a request"
            path = disk.paths[0] if disk.paths else name
            yield window.sign("disk-busy", last, text, disk=name, path=path, percent=round(100 * busy))
    if waits >= WAITS_FOR_IO:
        yield window.sign("io-pressure", last, f"I/O pressure: some {waits:.0%}", percent=round(100 * waits))


def _blocked(window: _Window) -> Iterator[MachineSign]:
    """``rank-blocked`` (times, of): in at least half of the samples. Pressure on a machine with many busy processors
    hides one rank that waits for its disk."""
    for rank in sorted({use.rank for row in window.rows for use in row.ranks}):
        seen = [(row, use) for row in window.rows for use in row.ranks if use.rank == rank]
        blocked = [row for row, use in seen if use.blocked]
        if len(seen) >= LOOKS and len(blocked) >= MOSTLY * len(seen):
            text = f"rank {rank}: in the kernel, not to be interrupted, in {len(blocked)} of {len(seen)} samples"
            yield window.sign("rank-blocked", blocked[-1], text, rank, times=len(blocked), of=len(seen))


def _network_signs(window: _Window) -> Iterator[MachineSign]:
    """``link-lost`` (link), ``link-errors`` (link, count), ``sent-again`` (count, percent)."""
    last = window.rows[-1]
    for name in dict.fromkeys(name for row in window.rows for name in (*row.net, *row.ib)):
        seen = [row.net.get(name) or row.ib[name] for row in window.rows if name in row.net or name in row.ib]
        changes, errors = sum(one.link_changes for one in seen), sum(one.errors for one in seen)
        if changes:
            yield window.sign(
                "link-lost", last, f"{name}: link changed {changes} times, now {seen[-1].state}", link=name
            )
        elif errors >= MANY_ERRORS:
            yield window.sign("link-errors", last, f"{name}: {errors} errors", link=name, count=errors)
    sent = sum(row.tcp.sent for row in window.rows if row.tcp is not None)
    again = sum(row.tcp.sent_again for row in window.rows if row.tcp is not None)
    if again >= SENT_AGAIN and again >= SENT_AGAIN_SHARE * sent:
        percent = round(100 * again / max(1, sent))
        yield window.sign(
            "sent-again", last, f"TCP: {again} of {sent} segments sent again", count=again, percent=percent
        )
