"""Files and folders only their owner may read. What somebody else's program said is written without secrets."""

from __future__ import annotations

import json
import os
from io import FileIO
from pathlib import Path
from typing import Any

RUN_FOLDERS: set[Path] = set()
"""Of runs that have begun: what somebody removes is not made again."""


def make_folder(path: Path) -> Path:
    """Create ``path`` and missing parents with mode 0700; parents that exist stay as they are. Raises OSError."""
    if path in RUN_FOLDERS and not path.exists():
        raise FileNotFoundError(f"{path} was removed while its run went on")
    if not path.parent.exists():
        make_folder(path.parent)  # mkdir's own ``parents`` would give them the default mode
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def write(path: Path, content: bytes) -> None:
    """Write ``content`` to a new file of mode 0600, creating its folder."""
    make_folder(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def write_text(path: Path, text: str | bytes) -> None:
    """Write a text that is not ours to a new file, without secrets; bytes that are no UTF-8 stay as they are."""
    write(path, masked_bytes(text))


def masked_bytes(text: str | bytes) -> bytes:
    """``text`` without secrets, as bytes."""
    from unhang.secrets import without_secrets

    spoken = text if isinstance(text, str) else text.decode("utf-8", "surrogateescape")
    return without_secrets(spoken).encode("utf-8", "surrogateescape")


def write_json(path: Path, document: Any, *, indent: int | None = 1) -> None:
    """Write ``document`` as JSON to ``path`` as :func:`write_atomically` does, without secrets."""
    from unhang.secrets import tree_without_secrets

    write_atomically(path, json.dumps(tree_without_secrets(document), indent=indent).encode() + b"\n")


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` (mode 0600) so that a reader sees the old text or the new one, never a part."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    write(unfinished, content)
    unfinished.replace(path)


def append(path: Path, content: bytes) -> None:
    """Add ``content`` to the end of ``path`` (mode 0600) in one write."""
    with open_log(path) as file:
        file.write(content)


def open_log(path: Path) -> FileIO:
    """``path`` (mode 0600), to add to its end. Nothing is held back."""
    return FileIO(path, "ab", opener=_private)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
