"""Which files the user's words name: files, folders, globs, URLs. Looks at names and ``stat`` only; opens nothing."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from unhang.errors import ObjectError
from unhang.evidence.read_limits import SKIPPED_FOLDERS, ReadLimits
from unhang.findings import Source, Unread
from unhang.late_pattern import late_pattern

if TYPE_CHECKING:
    from unhang.evidence.objects.listing import FoundObject

_UNFINISHED = late_pattern(r"\.rank_\d+\.\d+\.\d+")
"""What a rank of a watched job was writing when it was ended: rank, process, thread."""
FILE_REPLACED = "is no longer the file that was found; it was not read"
_FILE_URL = "file://"
_PIPE_PATH = re.compile(r"/dev/(?:stdin|fd/\d+)|/proc/self/fd/\d+")


FileIdentity = tuple[int, int]


class FileReplacedError(OSError):
    """Something else stands where a regular file was found."""

    def __init__(self) -> None:
        super().__init__(None, FILE_REPLACED)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A regular file. ``name`` is how the user would name it, ``size`` in bytes, ``root`` the folder that was named.

    ``identity``: its device and inode, by which ``open_regular_file`` knows that it is still the same; None where the
    file is opened on another machine.
    """

    path: Path
    name: str
    size: int
    modified_s: float
    root: Path
    identity: FileIdentity | None


@dataclass(slots=True)
class FoundFiles:
    """What the inputs name. ``pipes`` are to be read like standard input (``-``, ``<(command)``)."""

    files: list[FoundFile | FoundObject] = field(default_factory=list)
    pipes: list[str] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Inputs that name nothing at all."""
    inputs: list[str] = field(default_factory=list)
    """All of them, as they may be shown: without what a URL holds of passwords and signatures."""


def is_url(text: str) -> bool:
    """Whether ``text`` is an address such as ``s3://bucket/run``; a file of that very name goes before."""
    scheme, joint, _ = text.partition("://")
    return bool(joint) and len(scheme) > 1 and scheme.isascii() and scheme.isalnum() and not os.path.lexists(text)


def find_files(inputs: Sequence[str], limits: ReadLimits) -> FoundFiles:
    """Everything ``inputs`` name, sorted, each file once however often it is named or linked."""
    found = FoundFiles()
    named: list[_NamedPath | str] = []
    for text in inputs:
        if text == "-" or _PIPE_PATH.fullmatch(text):
            found.pipes.append(text)
        elif is_url(text) and not text.startswith(_FILE_URL):
            named.append(text)
            found.inputs.append(_shown(text))
            continue
        elif paths := _expand(_path_of(text)):
            named += paths
        else:
            found.missing.append(text)
        found.inputs.append(text)
    walk = _Walk(found, limits, [os.path.realpath(one.root) for one in named if not isinstance(one, str)])
    for one in named:
        if isinstance(one, str):
            _add_objects(one, found, limits)
        else:
            walk.add(one)
    return found


def _shown(url: str) -> str:
    from unhang.evidence.objects.stores import shown_url

    return shown_url(url)


def _add_objects(url: str, found: FoundFiles, limits: ReadLimits) -> None:
    from unhang.evidence.objects.listing import find_objects

    listing, known = find_objects(url, limits), {file.name for file in found.files}
    found.files += [file for file in listing.files if file.name not in known]
    found.unread += listing.unread
    if not listing.files and not listing.unread:
        found.missing.append(_shown(url))


def _path_of(text: str) -> str:
    """``text``, or the path that a file:// URL names: such a file is read as every other."""
    if not text.startswith(_FILE_URL):
        return text
    from urllib.parse import unquote

    return unquote(text.removeprefix(_FILE_URL).removeprefix("localhost"))


@dataclass(frozen=True, slots=True)
class _NamedPath:
    """What the user named: a path, or what a recursive glob found below ``root``."""

    path: Path
    root: Path
    by_glob: bool = False


def _expand(text: str) -> list[_NamedPath]:
    path = Path(text).expanduser()
    if os.path.lexists(path):
        return [_as_named(path)]
    if not glob.has_magic(text):
        return []
    if "**" in path.parts:
        return _below(path)
    return [_as_named(Path(match)) for match in sorted(glob.glob(str(path)))]  # noqa: PTH207 - a user's glob may be absolute


def _as_named(path: Path) -> _NamedPath:
    return _NamedPath(path, path if path.is_dir() else path.parent)


def _below(path: Path) -> list[_NamedPath]:
    """``glob`` would follow links to folders, out of where the pattern begins; ``Path.glob`` does not."""
    at = next(index for index, part in enumerate(path.parts) if glob.has_magic(part))
    begin, pattern = Path(*path.parts[:at]), "/".join(path.parts[at:])
    matches = begin.glob(f"{pattern}/*" if path.parts[-1] == "**" else pattern)
    shown = (match for match in matches if not any(part[0] == "." for part in match.parts[at:]))
    return [_NamedPath(match, begin, by_glob=True) for match in sorted(shown)]


def links_outside(path: Path, roots: Sequence[str]) -> bool:
    """Whether ``path`` is a link whose end lies in none of ``roots`` (real paths)."""
    if not path.is_symlink():
        return False
    end = os.path.realpath(path)
    return not any(end == root or end.startswith(root.rstrip("/") + "/") for root in roots)


def open_regular_file(path: str | Path, identity: FileIdentity | None = None) -> BinaryIO:
    """A regular file, for reading, unbuffered; never waits, for a name may have turned into a pipe.

    Raises:
        OSError: it cannot be opened.
        FileReplacedError: it is no regular file, or no longer the one of ``identity``.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    status = os.fstat(descriptor)
    same = identity is None or (status.st_dev, status.st_ino) == tuple(identity)
    if same and stat.S_ISREG(status.st_mode):
        return os.fdopen(descriptor, "rb", buffering=0)
    os.close(descriptor)
    raise FileReplacedError


class _Walk:
    """Adds paths to ``found`` within limits."""

    def __init__(self, found: FoundFiles, limits: ReadLimits, roots: Sequence[str]) -> None:
        self._found = found
        self._roots = roots
        self._limits = limits
        self._seen: set[tuple[int, int]] = set()
        self._full = False

    def add(self, named: _NamedPath) -> None:
        """Add what the user named: a file, or a folder with all it holds."""
        if named.by_glob:
            self._add_inside(named.path, named.root, depth=1)
        else:
            self._add(named.path, named.root, depth=0)

    def _add_inside(self, path: Path, root: Path, depth: int) -> None:
        """A link somebody else made may lead anywhere: out of what was given it is not followed."""
        try:
            out = links_outside(path, self._roots)
        except (OSError, RuntimeError, ValueError):
            out = False  # a loop: ``_add`` says so
        if out and path.exists():
            self._refuse(path, "is a link that leads out of what was given; it was not followed")
        else:
            self._add(path, root, depth)

    def _add(self, path: Path, root: Path, depth: int) -> None:
        try:
            status = path.stat()
        except OSError as error:
            self._refuse(path, unreadable_reason(error))
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
            self._found.files.append(FoundFile(path, str(path), status.st_size, status.st_mtime, root, key))
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
            self._add_inside(path, root, depth + 1)

    def _children(self, folder: Path) -> Iterator[Path]:
        try:
            with os.scandir(folder) as entries:
                told = (entry.name for entry in entries if not _UNFINISHED.fullmatch(entry.name))
                names = sorted(name for name in told if name not in SKIPPED_FOLDERS)
        except OSError as error:
            self._refuse(folder, unreadable_reason(error))
            return
        for name in names:
            yield folder / name

    def _refuse(self, path: Path, reason: str) -> None:
        self._found.unread.append(Unread(Source(str(path)), reason))


def unreadable_reason(error: OSError | ObjectError) -> str:
    """One plain clause for what kept a file from being opened."""
    if isinstance(error, ObjectError):
        return str(error)
    if isinstance(error, FileReplacedError):
        return FILE_REPLACED
    if isinstance(error, FileNotFoundError):
        return "has vanished, or is a link that leads nowhere"
    if isinstance(error, PermissionError):
        return "may not be read by this user (permission denied)"
    return f"cannot be read ({error.strerror or type(error).__name__})"


def _kind_of(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "named pipe"
    return "socket" if stat.S_ISSOCK(mode) else "device"
