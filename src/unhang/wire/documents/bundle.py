"""``bundle.json``: what a recorder of ours wrote beside the evidence; ``docs/bundle.md`` tells the keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import msgspec

from unhang.findings import Source, Unread
from unhang.wire.documents.document import MAX_RANKS, Document, Name, Rank, Seconds, read_document

MAX_BYTES = 64 * 1024 * 1024
_DUMP = re.compile(r"dumps/(?:earlier/)?rank_(?P<rank>\d{1,9})(?:\.json)?")
_STACK = re.compile(r"stacks/rank_(?P<rank>\d{1,9})(?:\.\d{1,3})?(?:\.worker_\d{1,9})?\.(?:txt|json)")
_LOG = re.compile(r"logs/attempt_\d{1,6}/(?P<local>\d{1,9})/(?:stdout|stderr)\.log")


class MarkedPhase(msgspec.Struct, frozen=True, omit_defaults=True):
    """A phase the program marked. ``at_most_s``: how long it was to take at most; None where nothing was said."""

    label: Name
    gone_s: Seconds
    phase: Name = "other"
    at_most_s: Seconds | None = None


class GuardWait(msgspec.Struct, frozen=True, omit_defaults=True):
    """A wait in a guard of ours. ``ranks``: for whom; empty where it did not know. ``limit_s``: after so long it gives
    up; None where it has no such limit."""

    what: Name
    waited_s: Seconds
    ranks: tuple[Rank, ...] = ()
    limit_s: Seconds | None = None


class HeldLock(msgspec.Struct, frozen=True):
    """A file lock that another process holds. ``started_s``: since when that process runs."""

    path: Name
    pid: int
    command: Name = ""
    started_s: Seconds | None = None


class EndedChild(msgspec.Struct, frozen=True):
    """A child that has ended while its parent goes on; ``signal`` 0: by itself."""

    pid: int
    signal: int = 0
    exit_code: int = 0


class LiveChild(msgspec.Struct, frozen=True, omit_defaults=True):
    """A child that is stopped, or stands at the other end of a pipe in which its parent sleeps. ``waits``: it sleeps in
    such a pipe itself, to ``read`` or to ``write``."""

    pid: int
    state: Annotated[str, msgspec.Meta(max_length=1)] = ""
    command: Name = ""
    waits: Name = ""


class ExternalWaits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a process waits for outside of the job."""

    peers: tuple[Name, ...] = ()
    """``address:port`` of the connection its main thread sleeps on."""
    locks: tuple[HeldLock, ...] = ()
    ended_children: tuple[EndedChild, ...] = ()
    children: tuple[LiveChild, ...] = ()
    pipe: Name = ""
    """``read`` or ``write``, where its main thread sleeps in a pipe, and to whom: """
    pipe_ends: tuple[int, ...] = ()
    """Its children at the other end; empty where none of them has it open."""


NO_EXTERNAL_WAITS = ExternalWaits()


class RankProcess(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a bundle knows of a rank's process."""

    rank: Rank
    pid: int | None = None
    host: Name | None = None
    local_rank: int | None = None
    exit_code: int | None = None
    """None = still alive when the evidence was taken. A signal is negative."""
    killed_by_us: bool = False
    """The recorder ended it after taking the evidence: its exit says nothing."""
    state: Annotated[str, msgspec.Meta(max_length=1)] = ""
    """``/proc`` state letter at the stall."""
    ended_s: Seconds | None = None
    moving: bool | None = None
    """Stacks or positions differ between two samples; None: sampled once, or not at all."""
    beats: bool | None = None
    """Our thread in it ran between the samples, so that nothing kept the interpreter lock; None: it has none."""
    terminated_by_launcher: bool = False
    """torchrun itself ended it because a sibling failed: a victim."""
    not_seen: Name = ""
    """Why its stack could not be sampled from outside; empty when it was, or nobody tried."""
    kernel: tuple[dict[str, Any], ...] = ()
    """What the kernel tells of it then, at two moments."""
    idle: bool = False
    """It and its children used neither the processor nor files between the samples."""
    from_record: bool = False
    """Its stack is the one its own record names: of the thread that issues collectives only."""
    marked: MarkedPhase | None = None
    """The phase the program marked (``unhang.phase``) and was in."""
    guard_wait: GuardWait | None = None
    """It waited in a guard, on the store."""
    unanswered: tuple[Name, ...] = ()
    """``address:port`` it tried to connect to for as long as it was sampled, without an answer."""
    awaits: ExternalWaits = NO_EXTERNAL_WAITS
    """What it waited for outside of the job, as the kernel told when it was sampled."""
    addresses: tuple[Name, ...] = ()
    """Its own, of its connections to other machines, in a job that moved."""
    piled_up: tuple[Name, ...] = ()
    """``OWN>OTHER``: addresses between which what it sent stood in its queue most of the time."""
    partner: int | None = None
    """With whom it was in a blocking send or receive, as its own record tells."""
    guessed_rank: bool = False
    """Nothing told its rank: ranks were numbered as their processes started."""
    groups: dict[Name, int] = {}
    """How many members each group has that it is a member of, by name, also of those it has called nothing in."""
    settings: dict[str, str] = {}
    limits: dict[str, str] = {}
    """Variables and limits of the process, where it was attached to."""


class BundleManifest(Document, frozen=True, kw_only=True, tag="unhang.bundle/1"):
    """The manifest of a bundle."""

    world_size: Annotated[int, msgspec.Meta(gt=0, le=MAX_RANKS)] | None = None
    processes: tuple[RankProcess, ...] = ()
    backend: Name = ""
    torch_version: Name = ""
    stalled_since_s: Seconds | None = None
    taken_s: Seconds | None = None
    limit_s: Seconds | None = None
    """Collective timeout in force, seconds."""
    source_root: str | None = None
    """Folder in the bundle holding copies of the user's source files, keyed by their path."""
    source_prefix: Annotated[str, msgspec.Meta(max_length=4_096)] | None = None
    """Path the source folder had when the job ran, as stack frames spell it."""
    taken_by: Name = ""
    """The command that sampled; empty for ``unhang run``."""
    launcher: int | None = None
    """Its process, where the job was attached to."""
    live: bool = False
    """The job went on after the sample; nobody ended it."""
    log_bytes: dict[str, int] = msgspec.field(default_factory=dict)
    """How long its logs were then, by path in the bundle: what was printed later is not of that moment."""
    files: tuple[str, ...] = ()
    """What lay beside it when it was written, by path in the bundle; empty where an earlier release wrote it."""
    cut: tuple[str, ...] = ()
    """Those of them that hold only the beginning of what there was to keep."""
    clock_ahead_s: float = 0.0
    """Of the node that wrote it, against the node that has it now; its times were moved."""

    def problem(self) -> str:
        """The first thing that cannot be right, or an empty text."""
        ranks = [process.rank for process in self.processes]
        world = MAX_RANKS if self.world_size is None else self.world_size
        if max(ranks, default=0) >= world:
            return "a rank outside its world"
        if any(rank >= world for process in self.processes if process.guard_wait for rank in process.guard_wait.ranks):
            return "a wait for a rank outside its world"
        if len(set(ranks)) != len(ranks):
            return "a rank that stands in it twice"
        if any(not 0 < size <= world for process in self.processes for size in process.groups.values()):
            return "a group larger than its world"
        if any(name.startswith("/") or ".." in name.split("/") for name in (*self.files, *self.cut)):
            return "a file outside the bundle"
        root = self.source_root
        if root is not None and (not root or PurePosixPath(root).is_absolute() or ".." in PurePosixPath(root).parts):
            return "a source folder outside the bundle"
        return ""


def read_manifest(content: Path | bytes, *, source: Source | str) -> BundleManifest | Unread:
    """The manifest in ``content`` (a file, or its bytes), or why it cannot be believed."""
    source = Source(source) if isinstance(source, str) else source
    raw = _bytes_of(content)
    return (
        Unread(source, raw) if isinstance(raw, str) else read_document(BundleManifest, raw, "a bundle manifest", source)
    )


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
        folder = folder_of(manifest)
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


def folder_of(manifest: BundleManifest) -> str:
    """The beginning that the names of all files of a bundle share."""
    return folder_above(manifest.source.path)


def folder_above(name: str) -> str:
    """``name`` of a file, in a folder or an archive, without its last part."""
    return name[: max(name.rfind("/"), name.rfind("!")) + 1]
