"""Read ``machine/series.jsonl``: what a machine was doing beside the job, one sample every few seconds.

Written by the watcher's sampler; ``docs/bundle.md`` tells the keys. A file like any other: a torn line costs only
itself, and so does one with a value that cannot be right.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Annotated

import msgspec

from unhang.findings import Source, Unread
from unhang.wire.documents.document import DECODE_ERRORS, schema_of

SCHEMA = "unhang.machine/1"
FOLDER = PurePosixPath("machine")
MAX_ROWS = 1_500
"""The last ones are kept: four hours."""
MAX_LINE = 256 << 10
_Number = Annotated[float, msgspec.Meta(ge=0, le=1e18)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Whole = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
_Name = Annotated[str, msgspec.Meta(max_length=512, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z")]


class PressureShares(msgspec.Struct, frozen=True):
    """Share of the time some (all) processes stood still for it."""

    some: _Share = 0.0
    full: _Share = 0.0


class CpuUse(msgspec.Struct, frozen=True):
    """Processors in use on the whole machine, waiting for disks, and taken by the host of a virtual machine."""

    processors: _Whole = 0
    busy: _Number = 0.0
    waits_for_disks: _Number = 0.0
    stolen: _Number = 0.0


class FileSystemSpace(msgspec.Struct, frozen=True):
    """A file system under a path of the run; bytes. ``unanswered_s``: it had not answered for so long."""

    use: _Name = ""
    type: _Name = ""
    free: _Whole | None = None
    size: _Whole = 0
    files_free: _Whole | None = None
    answered_s: _Number = 0.0
    unanswered_s: _Number = 0.0


class DiskUse(msgspec.Struct, frozen=True):
    """A device: bytes a second, share of the time it was busy, mean seconds a request."""

    paths: tuple[_Name, ...] = ()
    read_bps: _Number = 0.0
    write_bps: _Number = 0.0
    busy: _Share = 0.0
    await_s: _Number = 0.0


class InterfaceTraffic(msgspec.Struct, frozen=True):
    """A network interface, or a port of InfiniBand, since the sample before."""

    rx_bps: _Number = 0.0
    tx_bps: _Number = 0.0
    errors: _Whole = 0
    dropped: _Whole = 0
    link_changes: _Whole = 0
    state: _Name = ""


class TcpSegments(msgspec.Struct, frozen=True):
    """TCP segments sent since the sample before, and those sent again."""

    sent: _Whole = 0
    sent_again: _Whole = 0


class ControlGroupUse(msgspec.Struct, frozen=True):
    """Limits above some ranks; ``throttled`` of ``periods`` used up their share of processors before their end."""

    ranks: tuple[_Whole, ...] = ()
    limit_cpus: _Number | None = None
    periods: _Whole = 0
    throttled: _Whole = 0
    throttled_s: _Number = 0.0
    memory_limit: _Whole | None = None
    memory_used: _Whole = 0
    memory_hits: _Whole = 0


class RankUse(msgspec.Struct, frozen=True):
    """Processors a rank used, and the share of the time its main thread was ready and got none. ``blocked``: so many
    of its processes stood in the kernel, as in a read or write of a disk. ``processors``: so many it may use, where
    that is not all; ``beside``: who else is bound to them."""

    rank: _Whole
    pid: _Whole = 0
    cpus: _Number | None = None
    starved: _Share | None = None
    blocked: _Whole = 0
    cards: tuple[_Name, ...] = ()
    processors: _Whole = 0
    beside: tuple[OtherProcess, ...] = ()


class OtherProcess(msgspec.Struct, frozen=True):
    """A process that is not the job's. ``user``: ``same``, ``another``, ``unknown``; ``uuid``: of the card it is on."""

    pid: _Whole = 0
    user: _Name = ""
    uid: _Whole | None = None
    name: _Name = ""
    cpus: _Number = 0.0
    uuid: _Name = ""
    card_mem: _Whole = 0


class GpuSample(msgspec.Struct, frozen=True):
    """A card; ``util`` in percent, memory in bytes, links in bytes a second."""

    index: _Whole
    uuid: _Name = ""
    bus: _Name = ""
    name: _Name = ""
    util: _Whole | None = None
    mem_used: _Whole = 0
    mem_total: _Whole = 0
    sm_mhz: _Whole | None = None
    sm_max_mhz: _Whole | None = None
    mem_mhz: _Whole | None = None
    temp_c: _Whole | None = None
    power_w: _Whole | None = None
    power_limit_w: _Whole | None = None
    uncorrected: _Whole | None = None
    lanes: _Whole | None = None
    throttle: tuple[_Name, ...] = ()
    pcie_rx_bps: _Number | None = None
    pcie_tx_bps: _Number | None = None
    nvlink_rx_bps: _Number | None = None
    nvlink_tx_bps: _Number | None = None


class ReportedXid(msgspec.Struct, frozen=True):
    """An Xid the driver reported since the sample before."""

    bus: _Name = ""
    code: _Whole = 0
    pid: _Whole | None = None


class MachineRow(msgspec.Struct, frozen=True):
    """One sample: what was true at ``t_s`` (since the epoch), and rates over the ``for_s`` seconds before it."""

    t_s: _Number
    for_s: _Number = 0.0
    node: _Name = ""
    line: int = 0
    """Of the file; set by the reader."""
    pressure: dict[_Name, PressureShares] = {}
    cpu: CpuUse | None = None
    job_cpus: _Number = 0.0
    space: dict[_Name, FileSystemSpace] = {}
    disk: dict[_Name, DiskUse] = {}
    net: dict[_Name, InterfaceTraffic] = {}
    tcp: TcpSegments | None = None
    ib: dict[_Name, InterfaceTraffic] = {}
    cgroup: dict[_Name, ControlGroupUse] = {}
    ranks: tuple[RankUse, ...] = ()
    own_pids: bool = False
    """Ranks are numbered as in their container: the kernel's log has other numbers."""
    others: tuple[OtherProcess, ...] = ()
    xids: tuple[ReportedXid, ...] = ()
    cards: tuple[GpuSample, ...] = ()
    cards_because: Annotated[str, msgspec.Meta(max_length=2_000)] = ""


class MachineSeries(msgspec.Struct, frozen=True):
    """One file of samples, oldest first."""

    source: Source
    rows: tuple[MachineRow, ...]
    unread: tuple[Unread, ...] = ()


def read_machine_series(raw: bytes, *, source: Source) -> MachineSeries | Unread:
    """The samples of a file, or why it cannot be believed."""
    lines = raw.splitlines()
    try:
        schema = schema_of(lines[0][:MAX_LINE]) if lines else ""
    except DECODE_ERRORS as error:
        return Unread(source, f"is no series of a machine: {str(error)[:200]}")
    if schema != SCHEMA:
        return Unread(source, f"is no series of a machine: its schema is {schema[:60]!r}, not {SCHEMA!r}")
    rows = list(_rows(lines))
    good = sorted((row for row in rows if row is not None), key=lambda row: (row.t_s, row.line))
    bad = len(rows) - len(good)
    unread = (Unread(source, f"{bad} of its lines are torn or cannot be right, and were left out"),) if bad else ()
    return MachineSeries(source, tuple(good[-MAX_ROWS:]), unread)


def _rows(lines: list[bytes]) -> Iterator[MachineRow | None]:
    decoder = msgspec.json.Decoder(MachineRow)
    first = max(1, len(lines) - 2 * MAX_ROWS)
    for number, line in enumerate(lines[first:], first + 1):
        if not line or line.startswith(b'{"schema"'):
            continue
        try:
            row = decoder.decode(line) if len(line) <= MAX_LINE else None
        except DECODE_ERRORS:
            row = None
        yield msgspec.structs.replace(row, line=number) if row is not None else None
