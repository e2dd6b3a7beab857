"""Write flight-recorder dumps in torch's own byte layout, without torch: for tests and benchmarks.

The layout is that of the TorchScript pickler as seen in real dumps (torch 2.8 and 2.13): protocol 2, every text stored
once and referred to afterwards, frame dicts shared, entry dicts not stored.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

VERSIONS: Final[Mapping[str, str]] = {
    "2.2": "",
    "2.3": "1.4",
    "2.4": "2.1",
    "2.5": "2.4",
    "2.6": "2.4",
    "2.7": "2.4",
    "2.8": "2.9",
    **{f"2.{minor}": "2.10" for minor in range(9, 16)},
}
"""Format version by torch version."""
START_NS: Final = 1_795_000_000_000_000_000
THREAD_ID: Final = "140698670013312"


class TorchPickler:
    """Writes plain values as torch's C++ pickler does. Dicts in ``shared`` (by identity) are stored and referred to."""

    def __init__(self) -> None:
        self.out = bytearray(b"\x80\x02")
        self._texts: dict[str, int] = {}
        self._shared: dict[int, tuple[int, Any]] = {}
        self._slots = 0

    def finish(self) -> bytes:
        """The whole pickle."""
        return bytes(self.out) + b"."

    def value(self, value: Any, *, shared: bool = False) -> None:
        """Write one value; ``shared`` dicts are written once."""
        if isinstance(value, str):
            self._text(value)
        elif value is None or isinstance(value, bool):
            self.out += {None: b"N", True: b"\x88", False: b"\x89"}[value]
        elif isinstance(value, int):
            self.out += integer(value)
        elif isinstance(value, float):
            self.out += b"G" + np.float64(value).astype(">f8").tobytes()
        elif isinstance(value, dict):
            self._dict(value, shared=shared)
        elif isinstance(value, tuple):
            self._tuple(value)
        else:
            self._list(value)

    def key_of_frames(self, frames: Sequence[Mapping[str, Any]]) -> None:
        """Write a list of frame dicts, each shared."""
        self.out += b"]("
        for frame in frames:
            self.value(frame, shared=True)
        self.out += b"e"

    def _store(self) -> int:
        slot = self._slots
        self._slots += 1
        self.out += b"q" + bytes((slot,)) if slot < 256 else b"r" + slot.to_bytes(4, "little")
        return slot

    def _refer(self, slot: int) -> None:
        self.out += b"h" + bytes((slot,)) if slot < 256 else b"j" + slot.to_bytes(4, "little")

    def _text(self, text: str) -> None:
        slot = self._texts.get(text)
        if slot is not None:
            self._refer(slot)
            return
        raw = text.encode()
        self.out += b"X" + len(raw).to_bytes(4, "little") + raw
        self._texts[text] = self._store()

    def _dict(self, value: Mapping[str, Any], *, shared: bool) -> None:
        known = self._shared.get(id(value)) if shared else None
        if known is not None:
            self._refer(known[0])
            return
        self.out += b"}("
        for key, item in value.items():
            self._text(key)
            if key == "frames":
                self.key_of_frames(item)
            else:
                self.value(item)
        self.out += b"u"
        if shared:
            self._shared[id(value)] = (self._store(), value)

    def _tuple(self, value: tuple[Any, ...]) -> None:
        if len(value) == 0:
            self.out += b")"
            return
        if len(value) > 3:
            self.out += b"("
        for item in value:
            self.value(item)
        self.out += {1: b"\x85", 2: b"\x86", 3: b"\x87"}.get(len(value), b"t")

    def _list(self, value: Iterable[Any]) -> None:
        self.out += b"]("
        for item in value:
            self.value(item)
        self.out += b"e"


def integer(value: int) -> bytes:
    """An integer as torch's pickler writes it."""
    if 0 <= value < 1 << 8:
        return b"K" + value.to_bytes(1, "little")
    if 0 <= value < 1 << 16:
        return b"M" + value.to_bytes(2, "little")
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + value.to_bytes(4, "little", signed=True)
    return b"\x8a\x08" + value.to_bytes(8, "little", signed=True)


def pickle_like_torch(dump: Any) -> bytes:
    """``dump`` (a dict, or the bare list of torch 2.2) as torch writes it."""
    pickler = TorchPickler()
    pickler.value(dump)
    return pickler.finish()


def json_like_torch(dump: Mapping[str, Any]) -> str:
    """``dump`` in the JSON variant: no frames, 0 for unknown times, status as text, no empty entries, sorted keys."""
    plain = {key: value for key, value in dump.items() if key != "entries"}
    plain["pg_status"] = {
        group: {key: str(value) for key, value in status.items()} for group, status in dump.get("pg_status", {}).items()
    }
    plain.setdefault("nccl_comm_state", {})
    entries = [
        {
            key: 0 if value is None else list(value) if isinstance(value, tuple) else value
            for key, value in entry.items()
            if key != "frames"
        }
        for entry in dump.get("entries", [])
    ]
    if entries:
        plain["entries"] = entries
    return json.dumps(plain, sort_keys=True, separators=(",", ":"))


def make_frames(site: int, count: int) -> list[dict[str, Any]]:
    """``count`` frames of call site number ``site``, innermost first."""
    own = {"name": f"layer_{site}_forward", "filename": f"/opt/job/model/block_{site % 7}.py", "line": 40 + site}
    library = [
        {"name": f"step_{depth}", "filename": f"/opt/lib/torch/distributed/part_{depth}.py", "line": 100 + depth}
        for depth in range(max(0, count - 1))
    ]
    return [*library[: count // 2], own, *library[count // 2 :]][:count]


def make_entry(
    torch_version: str = "2.13",
    *,
    record_id: int = 0,
    pg_id: int = 0,
    group: tuple[str, str] = ("0", "default_pg"),
    position: int = 1,
    operation: str = "nccl:all_reduce",
    sizes: Sequence[Sequence[int]] = ((4, 3),),
    output_sizes: Sequence[Sequence[int]] | None = None,
    dtype: str = "Float",
    state: str = "completed",
    retired: bool | None = None,
    is_p2p: bool = False,
    created_ns: int = START_NS,
    frames: list[dict[str, Any]] | None = None,
    timeout_ms: int = 600_000,
) -> dict[str, Any]:
    """One entry with the keys, and in the order, of ``torch_version``."""
    minor = int(torch_version.split(".")[1])
    shape = [list(size) for size in sizes]
    output = shape if output_sizes is None else [list(size) for size in output_sizes]
    done = state == "completed"
    fields: tuple[tuple[str, int, int, Any], ...] = (
        # key, torch minor version since, until, value
        ("frames", 3, 99, frames),
        ("record_id", 3, 99, record_id),
        ("pg_id", 2, 99, pg_id),
        ("process_group", 4, 99, group),
        ("thread_name", 8, 99, "pt_main_thread"),
        ("thread_id", 8, 99, THREAD_ID),
        ("collective_seq_id", 4, 99, 0 if is_p2p else position),
        ("p2p_seq_id", 4, 99, position if is_p2p else 0),
        ("seq_id", 2, 3, position),
        ("op_id", 3, 99, position),
        ("profiling_name", 2, 99, operation),
        ("time_created_us", 2, 2, created_ns // 1000),
        ("time_created_ns", 3, 99, created_ns),
        ("input_sizes", 2, 99, shape),
        ("input_dtypes", 4, 99, [dtype] * len(shape)),
        ("output_sizes", 2, 99, output),
        ("output_dtypes", 4, 99, [dtype] * len(output)),
        ("state", 2, 99, state),
        ("time_discovered_started_ns", 3, 99, created_ns + 1_000_000 if done else None),
        ("time_discovered_completed_ns", 3, 99, created_ns + 2_000_000 if done else None),
        ("retired", 2, 99, done if retired is None else retired),
        ("timeout_ms", 5, 99, timeout_ms),
        ("is_p2p", 4, 99, is_p2p),
        ("frames", 2, 2, frames),
    )
    return {
        key: value
        for key, since, until, value in fields
        if since <= minor <= until and (key != "frames" or frames is not None)
    }


def make_dump(
    torch_version: str,
    entries: list[dict[str, Any]],
    *,
    groups: Mapping[str, tuple[str, Sequence[int]]] | None = None,
    status: Mapping[str, tuple[int, int, int]] | None = None,
    library_version: str = "2.29.7",
    comm_state: Mapping[str, Mapping[str, str]] | None = None,
) -> Any:
    """A dump of ``torch_version`` around ``entries``.

    ``groups`` is name -> (description, ranks), ``status`` is id -> (enqueued, started, completed).
    """
    minor = int(torch_version.split(".")[1])
    if minor == 2:
        return entries
    dump: dict[str, Any] = {"version": VERSIONS[torch_version]}
    dump["pg_config"] = {
        name: {"name": name, "desc": description, "ranks": f"[{', '.join(map(str, ranks))}]"}
        for name, (description, ranks) in (groups or {"0": ("default_pg", range(2))}).items()
    }
    if minor >= 8:
        dump["nccl_version" if minor == 8 else "comm_lib_version"] = library_version
    if minor >= 5:
        keys = ("last_enqueued_collective", "last_started_collective", "last_completed_collective")
        dump["pg_status"] = {pg: dict(zip(keys, numbers, strict=True)) for pg, numbers in (status or {}).items()}
    dump["entries"] = entries
    if comm_state:
        dump["nccl_comm_state"] = comm_state
    return dump


@dataclass(frozen=True, slots=True)
class StalledJob:
    """A job in which ``laggard`` never entered the last collective of the default group."""

    ranks: int
    entries: int = 2000
    """Entries a rank."""
    frames: int = 10
    """Frames an entry."""
    laggard: int = 5
    torch_version: str = "2.13"
    tensor_parallel: int = 8
    sites: int = 24
    """Different call sites of the training loop."""

    @property
    def last_position(self) -> int:
        """Position in the default group that the laggard never entered."""
        return sum(1 for index in range(self.entries) if index % 4 == 3) + 1

    def dumps(self, count: int | None = None) -> Iterator[tuple[int, bytes]]:
        """(rank, file content) of the first ``count`` ranks, each with its own times, groups and lateness."""
        bodies = {late: _Body(self, late=late) for late in (False, True)}
        for rank in range(self.ranks if count is None else count):
            yield rank, bodies[rank == self.laggard].of_rank(rank)

    def write(self, folder: Path, *, distinct: int | None = None, prefix: str = "comm_lib_trace_rank_") -> list[Path]:
        """Write one file a rank into ``folder``; beyond ``distinct`` ranks they are copies of earlier files."""
        folder.mkdir(parents=True, exist_ok=True)
        paths = [folder / f"{prefix}{rank}" for rank in range(self.ranks)]
        for rank, content in self.dumps(min(self.ranks, distinct or self.ranks)):
            paths[rank].write_bytes(content)
        others = [path for rank, path in enumerate(paths[: distinct or self.ranks]) if rank != self.laggard]
        for rank in range(distinct or self.ranks, self.ranks):
            shutil.copyfile(others[rank % len(others)], paths[rank])
        return paths

    def head(self, rank: int, *, late: bool) -> dict[str, Any]:
        """The dump of ``rank`` without entries; ``late`` is the laggard's, which never entered the last collective."""
        own = self._members(rank)
        counts = [self.last_position - 1, self.entries - self.last_position + 1]
        status = {"0": (counts[0] + (not late), -1, counts[0]), "1": (counts[1], -1, counts[1])}
        groups = {"0": ("default_pg", range(self.ranks)), self._group(rank)[0]: (self._group(rank)[1], own)}
        head: dict[str, Any] = make_dump(self.torch_version, [], groups=groups, status=status)
        return head

    def recorded(self, rank: int, *, late: bool) -> list[dict[str, Any]]:
        """The entries of ``rank``."""
        library = {key(f): f for site in range(self.sites) for f in make_frames(site, self.frames)}
        sites = [[library[key(f)] for f in make_frames(site, self.frames)] for site in range(self.sites)]
        counts = [0, 0]
        entries = []
        for index in range(self.entries):
            which = 0 if index % 4 == 3 else 1
            counts[which] += 1
            entries.append(self._entry(rank, index, which, counts[which], sites[index % self.sites]))
        if not late:
            entries.append(self._entry(rank, self.entries, 0, counts[0] + 1, sites[-1], state="scheduled"))
            entries.pop(0)
        return entries

    def _members(self, rank: int) -> range:
        first = rank // self.tensor_parallel * self.tensor_parallel
        return range(first, min(first + self.tensor_parallel, self.ranks))

    def _group(self, rank: int) -> tuple[str, str]:
        # numbered from 10, so that no group is called like the status key of another
        return str(10 + rank // self.tensor_parallel), "TENSOR_MODEL_PARALLEL_GROUP"

    def _entry(
        self, rank: int, index: int, which: int, position: int, frames: list[dict[str, Any]], state: str = "completed"
    ) -> dict[str, Any]:
        part = ((512, 1 + index % 6),)
        full = ((512 * len(self._members(rank)), 1 + index % 6),)
        gathers = position % 2 == 0
        inputs, outputs = (part, part) if which == 0 else (part, full) if gathers else (full, part)
        return make_entry(
            self.torch_version,
            record_id=index,
            pg_id=which,
            group=self._group(rank) if which else ("0", "default_pg"),
            position=position,
            operation="nccl:all_reduce"
            if which == 0
            else "nccl:_all_gather_base"
            if gathers
            else "nccl:_reduce_scatter_base",
            sizes=inputs,
            output_sizes=outputs,
            dtype="BFloat16",
            state=state,
            created_ns=START_NS + index * 7_000_000,
            frames=frames,
        )


def key(frame: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes two frames the same."""
    return frame["name"], frame["filename"], frame["line"]


class _Body:
    """The entries of a rank's dump made once; other ranks differ in their head, their thread and their times."""

    def __init__(self, job: StalledJob, *, late: bool) -> None:
        self.job = job
        self.late = late
        whole = pickle_like_torch(job.head(0, late=late) | {"entries": job.recorded(0, late=late)})
        body = whole[len(self._head(0)) :]
        clock = START_NS.to_bytes(8, "little")[-2:]
        found, at = [], body.find(b"\x8a\x08")
        while at >= 0:
            if body[at + 8 : at + 10] == clock:
                found.append(at + 2)
            at = body.find(b"\x8a\x08", at + 2)
        self.times = np.array(found)[:, None] + np.arange(8)
        self.body = np.frombuffer(body, dtype=np.uint8).copy()

    def of_rank(self, rank: int) -> bytes:
        """The file of ``rank``: its texts are stored in the order of rank 0, so the slots are the same."""
        jitter = (rank * 104_729 % 1_000_003) + (rank * 7919) % 4001 * np.arange(len(self.times)) % 9973
        body = self.body.copy()
        values = body[self.times].copy().view(np.int64)[:, 0] + jitter
        body[self.times] = values[:, None].view(np.uint8)
        content: bytes = body.tobytes().replace(THREAD_ID.encode(), b"%015d" % (int(THREAD_ID) + rank * 4096))
        return self._head(rank) + content

    def _head(self, rank: int) -> bytes:
        # what follows an empty list of entries: no entry, the end of the list, of the dump and of the pickle
        return pickle_like_torch(self.job.head(rank, late=self.late))[: -len(b"eu.")]
