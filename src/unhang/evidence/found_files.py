"""Which files the user's words name: files, folders, globs. Looks at names and ``stat`` only; opens nothing."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from unhang.evidence.limits import Limits
from unhang.findings import Source, Unread

_SKIPPED_FOLDERS = frozenset(
    (".git", ".hg", ".unhang", ".svn", "__pycache__", "node_modules", "site-packages", ".venv", ".mypy_cache")
)
_PIPE_PATH = re.compile(r"/dev/(?:stdin|fd/\d+)|/proc/self/fd/\d+")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file. ``name`` is how the user would name it, ``size`` in bytes, ``root`` the folder that was named."""

    path: Path
    name: str
    size: int
    modified_s: float
    root: Path


@dataclass(slots=True)
class Found:
    """What the inputs name. ``pipes`` are to be read like standard input (``-``, ``<(command)``)."""

    files: list[FoundFile] = field(default_factory=list)
    pipes: list[str] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Inputs that name nothing at all."""


def find_files(inputs: Sequence[str], limits: Limits) -> Found:
    """Everything ``inputs`` name, sorted, each file once however often it is named or linked."""
    found = Found()
    walk = _Walk(found, limits)
    for text in inputs:
        if text == "-" or _PIPE_PATH.fullmatch(text):
            found.pipes.append(text)
            continue
        paths = _expand(text)
        if not paths:
            found.missing.append(text)
        for path in paths:
            walk.add(path)
    return found


def _expand(text: str) -> list[Path]:
    path = Path(text).expanduser()
    if os.path.lexists(path):
        return [path]
    if not glob.has_magic(text):
        return []
    return [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207 - a user's glob may be absolute


class _Walk:
    """Adds paths to ``found`` within limits."""

    def __init__(self, found: Found, limits: Limits) -> None:
        self._found = found
        self._limits = limits
        self._seen: set[tuple[int, int]] = set()
        self._full = False

    def add(self, path: Path) -> None:
        """Add what the user named: a file, or a folder with all it holds."""
        self._add(path, root=path if path.is_dir() else path.parent, depth=0)

    def _add(self, path: Path, root: Path, depth: int) -> None:
        try:
            status = path.stat()
        except OSError as error:
            self._refuse(path, why_unreadable(error))
            return
        key = (status.st_dev, status.st_ino)
        if key in self._seen:
            return
        self._seen.add(key)
        if stat.S_ISDIR(status.st_mode):
            self._add_folder(path, root, depth)
        elif not stat.S_ISREG(status.st_mode):
            self._refuse(path, f"is a {_kind_of(status.st_mode)}, not a file; it was not opened")
        elif len(self._found.files) < self._limits.files:
            self._found.files.append(FoundFile(path, str(path), status.st_size, status.st_mtime, root))
        elif not self._full:
            self._full = True
            self._refuse(root, f"holds more than {self._limits.files:,} files; the rest was not looked at")

    def _add_folder(self, folder: Path, root: Path, depth: int) -> None:
        if depth > self._limits.depth:
            self._refuse(folder, f"is more than {self._limits.depth} folders deep; it was not looked into")
            return
        for path in self._children(folder):
            if self._full:
                return
            self._add(path, root, depth + 1)

    def _children(self, folder: Path) -> Iterator[Path]:
        try:
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in entries if entry.name not in _SKIPPED_FOLDERS)
        except OSError as error:
            self._refuse(folder, why_unreadable(error))
            return
        for name in names:
            yield folder / name

    def _refuse(self, path: Path, reason: str) -> None:
        self._found.unread.append(Unread(Source(str(path)), reason))


def why_unreadable(error: OSError) -> str:
    """One plain clause for an operating-system error."""
    if isinstance(error, FileNotFoundError):
        return "has vanished, or is a link that leads nowhere"
    if isinstance(error, PermissionError):
        return "may not be read by this user (permission denied)"
    return f"cannot be read ({error.strerror or type(error).__name__})"


def _kind_of(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "named pipe"
    return "socket" if stat.S_ISSOCK(mode) else "device"
