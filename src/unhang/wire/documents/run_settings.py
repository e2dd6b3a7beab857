"""``settings.json``: with what a run was started."""

from __future__ import annotations

import msgspec

from unhang.findings import Source, Unread
from unhang.wire.documents.document import Document, read_document

MAX_BYTES = 8 << 20


class GpuDescription(msgspec.Struct, frozen=True):
    """A card as it was when the run began; ``memory`` in bytes."""

    index: int = 0
    name: str = ""
    uuid: str = ""
    memory: int = 0
    width: int | None = None
    uncorrected: int = 0


class NodeDescription(msgspec.Struct, frozen=True):
    """A machine of the run; ``memory`` in bytes."""

    name: str = ""
    kernel: str = ""
    processors: int | None = None
    usable_processors: int | None = None
    memory: int | None = None


class SettingsFile(msgspec.Struct, frozen=True):
    """A configuration file the command named: its values by dotted key."""

    path: str
    kind: str = ""
    sha256: str = ""
    keys: dict[str, str] = msgspec.field(default_factory=dict)


class RunSettings(Document, frozen=True, kw_only=True, tag="unhang.settings/1"):
    """With what a run was started. Versions by package, ``python``, ``cuda``, ``nvidia-driver``."""

    unhang: str = ""
    written_s: float = 0.0
    command: tuple[str, ...] = ()
    folder: str = ""
    world_size: int | None = None
    nodes: tuple[NodeDescription, ...] = ()
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    cards: tuple[GpuDescription, ...] = ()
    files: tuple[SettingsFile, ...] = ()
    program: dict[str, str] = msgspec.field(default_factory=dict)
    not_looked: tuple[str, ...] = ()


def read_run_settings(raw: bytes, *, source: Source) -> RunSettings | Unread:
    """What the watcher wrote, or why it cannot be believed."""
    if len(raw) > MAX_BYTES:
        return Unread(source, f"is larger than {MAX_BYTES >> 20} MiB, too large for the settings of a run")
    return read_document(RunSettings, raw, "a record of a run's settings", source)
