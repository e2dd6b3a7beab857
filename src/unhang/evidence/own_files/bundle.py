"""Read ``bundle.json``: what a recorder of ours wrote beside the evidence.

The layout of a bundle is documented in ``docs/bundle.md``. A manifest is somebody's file like any other: every value is
checked, and one that cannot be right makes the whole manifest unread rather than half believed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import msgspec

from unhang.evidence.decode_errors import DECODE_ERRORS
from unhang.evidence.own_files.run_items import (
    BundleManifest,
    EndedChild,
    ExternalWaits,
    GuardWait,
    HeldLock,
    MarkedPhase,
    RankProcess,
)
from unhang.findings import Source, Unread

SCHEMA = "unhang.bundle/1"
MAX_BYTES = 64 * 1024 * 1024
MAX_RANKS = 1_000_000
_MAX_TEXT = 4_096

_DUMP = re.compile(r"dumps/(?:earlier/)?rank_(?P<rank>\d{1,9})(?:\.json)?")
_STACK = re.compile(r"stacks/rank_(?P<rank>\d{1,9})(?:\.\d{1,3})?(?:\.worker_\d{1,9})?\.(?:txt|json)")
_LOG = re.compile(r"logs/attempt_\d{1,6}/(?P<local>\d{1,9})/(?:stdout|stderr)\.log")


class _MarkedPhase(msgspec.Struct, frozen=True):
    label: str
    gone_s: float
    phase: str = "other"
    at_most_s: float | None = None


class _GuardWait(msgspec.Struct, frozen=True):
    what: str
    waited_s: float
    ranks: tuple[int, ...] = ()
    limit_s: float | None = None


class _HeldLock(msgspec.Struct, frozen=True):
    path: str
    pid: int
    command: str = ""
    started_s: float | None = None


class _EndedChild(msgspec.Struct, frozen=True):
    pid: int
    signal: int = 0
    exit_code: int = 0


class _ExternalWaits(msgspec.Struct, frozen=True):
    peers: tuple[str, ...] = ()
    locks: tuple[_HeldLock, ...] = ()
    ended_children: tuple[_EndedChild, ...] = ()


class _Process(msgspec.Struct, frozen=True):
    rank: int
    pid: int | None = None
    host: str | None = None
    local_rank: int | None = None
    exit_code: int | None = None
    killed_by_us: bool = False
    state: str = ""
    ended_s: float | None = None
    moving: bool | None = None
    beats: bool | None = None
    terminated_by_launcher: bool = False
    not_seen: str = ""
    idle: bool = False
    from_record: bool = False
    marked: _MarkedPhase | None = None
    guard_wait: _GuardWait | None = None
    unanswered: tuple[str, ...] = ()
    awaits: _ExternalWaits = _ExternalWaits()
    addresses: tuple[str, ...] = ()
    piled_up: tuple[str, ...] = ()
    partner: int | None = None
    guessed_rank: bool = False
    groups: dict[str, int] = {}


class _Manifest(msgspec.Struct, frozen=True):
    schema: str
    world_size: int | None = None
    processes: tuple[_Process, ...] = ()
    backend: str = ""
    torch_version: str = ""
    stalled_since_s: float | None = None
    taken_s: float | None = None
    limit_s: float | None = None
    source_root: str | None = None
    source_prefix: str | None = None
    taken_by: str = ""
    live: bool = False
    log_bytes: dict[str, int] = {}
    files: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()


def read_manifest(content: Path | bytes, *, source: Source | str) -> BundleManifest | Unread:
    """The manifest in ``content`` (a file, or its bytes), or why it cannot be believed.

    Keys this version does not know are left out: within ``/1`` keys are added, never renamed.
    """
    source = Source(source) if isinstance(source, str) else source
    raw = _bytes_of(content)
    if isinstance(raw, str):
        return Unread(source, raw)
    try:
        manifest = msgspec.json.decode(raw, type=_Manifest)
    except DECODE_ERRORS as error:
        return Unread(source, f"is not a bundle manifest: {str(error)[:200]}")
    problem = _problem(manifest)
    if problem:
        return Unread(source, f"is a bundle manifest that cannot be right: {problem}")
    return BundleManifest(
        source=source,
        world_size=manifest.world_size,
        processes=tuple(map(_process, manifest.processes)),
        backend=manifest.backend,
        torch_version=manifest.torch_version,
        stalled_since_s=manifest.stalled_since_s,
        taken_s=manifest.taken_s,
        limit_s=manifest.limit_s,
        source_root=manifest.source_root,
        source_prefix=manifest.source_prefix,
        taken_by=manifest.taken_by,
        live=manifest.live,
        log_bytes=manifest.log_bytes,
        files=manifest.files,
        cut=manifest.cut,
    )


def _process(told: _Process) -> RankProcess:
    values = msgspec.structs.asdict(told)
    if told.marked is not None:
        values["marked"] = MarkedPhase(**msgspec.structs.asdict(told.marked))
    if told.guard_wait is not None:
        values["guard_wait"] = GuardWait(**msgspec.structs.asdict(told.guard_wait))
    values["awaits"] = ExternalWaits(
        told.awaits.peers,
        tuple(HeldLock(**msgspec.structs.asdict(lock)) for lock in told.awaits.locks),
        tuple(EndedChild(**msgspec.structs.asdict(child)) for child in told.awaits.ended_children),
    )
    return RankProcess(**values)


def rank_of_file(manifest: BundleManifest, name: str) -> int | None:
    """The global rank a file of the bundle belongs to: the one place that decides it.

    Args:
        manifest: of the same bundle.
        name: the file's path inside the bundle, with ``/`` (``dumps/rank_3``, ``logs/attempt_0/1/stderr.log``).

    Returns:
        None for files of no rank (``logs/launcher.log``, source) and for ranks the manifest does not know.
    """
    known = {process.rank for process in manifest.processes}
    if match := _DUMP.fullmatch(name) or _STACK.fullmatch(name):
        rank = int(match["rank"])
        return rank if rank in known else None
    if match := _LOG.fullmatch(name):
        # torchrun names these folders by local rank; only the manifest knows which rank that was.
        local = int(match["local"])
        owners = [process.rank for process in manifest.processes if process.local_rank == local]
        return owners[0] if len(owners) == 1 else None
    return None


def log_bytes_at_capture(manifests: Sequence[BundleManifest], name: str) -> int | None:
    """How many bytes of the log ``name`` (as the user would name it) are of the moment its bundle is of; None: all."""
    for manifest in manifests:
        folder = manifest.source.path.removesuffix("bundle.json")
        known = manifest.log_bytes.get(name.removeprefix(folder)) if name.startswith(folder) else None
        if known is not None:
            return known
    return None


def source_path_of_file(manifest: BundleManifest, name: str) -> str | None:
    """The path by which stack frames call a source file kept in the bundle, or None when it is not one."""
    if manifest.source_root is None:
        return None
    try:
        inside = PurePosixPath(name).relative_to(manifest.source_root)
    except ValueError:
        return None
    prefix = "/" if manifest.source_prefix is None else manifest.source_prefix
    return str(PurePosixPath(prefix) / inside)


def _bytes_of(content: Path | bytes) -> bytes | str:
    """The bytes, or a sentence saying why not."""
    if isinstance(content, bytes):
        return content if len(content) <= MAX_BYTES else "is too large for a bundle manifest"
    try:
        if not content.is_file():
            return "is not a regular file"
        with content.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return raw if len(raw) <= MAX_BYTES else "is too large for a bundle manifest"


def _problem(manifest: _Manifest) -> str:
    """The first thing that cannot be right, or an empty text."""
    if manifest.schema != SCHEMA:
        return f"its schema is {manifest.schema[:60]!r}, not {SCHEMA!r}"
    if manifest.world_size is not None and not 0 < manifest.world_size <= MAX_RANKS:
        return f"a world size of {manifest.world_size}"
    if problem := _rank_problem(manifest):
        return problem
    times = [manifest.stalled_since_s, manifest.taken_s, manifest.limit_s, *(p.ended_s for p in manifest.processes)]
    times += [time for p in manifest.processes if p.marked for time in (p.marked.gone_s, p.marked.at_most_s)]
    waits = [p.guard_wait for p in manifest.processes if p.guard_wait]
    times += [time for wait in waits for time in (wait.waited_s, wait.limit_s)]
    times += [lock.started_s for p in manifest.processes for lock in p.awaits.locks]
    if any(time is not None and not (math.isfinite(time) and 0 <= time < 1e11) for time in times):
        return "a time that is none"
    if any(len(text) > _MAX_TEXT or not text.isprintable() for text in _texts(manifest)):
        return "a name with control characters or without end"
    if any(len(process.state) > 1 for process in manifest.processes):
        return "a process state of more than one letter"
    if any(name.startswith("/") or ".." in name.split("/") for name in (*manifest.files, *manifest.cut)):
        return "a file outside the bundle"
    return _source_problem(manifest)


def _rank_problem(manifest: _Manifest) -> str:
    ranks = [process.rank for process in manifest.processes]
    limit = MAX_RANKS if manifest.world_size is None else manifest.world_size
    if any(not 0 <= rank < limit for rank in ranks):
        return "a rank outside its world"
    if any(not 0 <= rank < limit for p in manifest.processes if p.guard_wait for rank in p.guard_wait.ranks):
        return "a wait for a rank outside its world"
    if len(set(ranks)) != len(ranks):
        return "a rank that stands in it twice"
    if any(not 0 < size <= limit for process in manifest.processes for size in process.groups.values()):
        return "a group larger than its world"
    return ""


def _texts(manifest: _Manifest) -> list[str]:
    """What may be shown to somebody."""
    texts = [manifest.backend, manifest.torch_version, manifest.taken_by]
    texts += [text for p in manifest.processes for text in (p.host or "", p.not_seen)]
    texts += [text for p in manifest.processes if p.marked for text in (p.marked.label, p.marked.phase)]
    texts += [p.guard_wait.what for p in manifest.processes if p.guard_wait]
    texts += [text for p in manifest.processes for lock in p.awaits.locks for text in (lock.path, lock.command)]
    texts += [peer for p in manifest.processes for peer in (*p.awaits.peers, *p.unanswered, *p.addresses, *p.piled_up)]
    texts += [name for p in manifest.processes for name in p.groups]
    return texts


def _source_problem(manifest: _Manifest) -> str:
    root = manifest.source_root
    if root is not None and (not root or PurePosixPath(root).is_absolute() or ".." in PurePosixPath(root).parts):
        return "a source folder outside the bundle"
    if manifest.source_prefix is not None and len(manifest.source_prefix) > _MAX_TEXT:
        return "a source prefix without end"
    return ""


def folder_of(manifest: BundleManifest) -> str:
    """The beginning that the names of all files of a bundle share."""
    return folder_above(manifest.source.path)


def folder_above(name: str) -> str:
    """``name`` of a file, in a folder or an archive, without its last part."""
    return name[: max(name.rfind("/"), name.rfind("!")) + 1]
