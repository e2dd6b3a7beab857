"""The folder that is written: what is done stands in it at once, and one command at a time writes."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unhang.errors import UsageError

WORK = ".unhang-reshard"
CALL = "call.json"
MANIFEST = "manifest.json"


class WorkFolder:
    """``folder`` holds the shards; ``work`` inside it what is not finished."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.work = folder, folder / WORK

    def finished(self) -> dict[str, Any] | None:
        """The manifest, once everything is written."""
        return _object(self.folder / MANIFEST)

    @contextmanager
    def held(self, call: Mapping[str, Any], *, again: bool) -> Iterator[bool]:
        """Begin or go on with ``call``; gives whether earlier work was found. ``again`` throws that away.

        Raises:
            UsageError: the folder holds something else, or another command writes here now.
        """
        before = (self.finished() or {}).get("call") or _object(self.work / CALL)
        if before is None and self._strangers():
            raise UsageError(f"{self.folder} is not empty", next_step="name another folder: --output DIR")
        if before is not None and before != call and not again:
            raise UsageError(
                f"{self.folder} contains the work of another call: {_difference(before, call)}",
                next_step="name another folder with --output, or start over with --overwrite",
            )
        try:
            self.work.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.work / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise UsageError(f"{self.folder} cannot be written: {error.strerror}") from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UsageError(f"another unhang reshard is writing {self.folder} now") from None
            if again:
                self._clear()
                before = None
            write_whole(self.work / CALL, json.dumps(call, indent=1))
            yield before is not None
        finally:
            os.close(lock)

    def close(self) -> None:
        """Everything is written: nothing unfinished stays."""
        shutil.rmtree(self.work, ignore_errors=True)

    def _strangers(self) -> bool:
        try:
            return any(path.name != WORK for path in self.folder.iterdir())
        except FileNotFoundError:
            return False
        except OSError as error:
            raise UsageError(f"{self.folder} is not a readable folder: {error.strerror}") from None

    def _clear(self) -> None:
        """Only what we wrote ourselves: the manifest first, so that a kill here leaves unfinished work, not a lie."""
        for pattern in (MANIFEST, "sizes.json", "sha256sums.txt", "left-out.tsv", "shard-*.tar"):
            for path in self.folder.glob(pattern):
                path.unlink()
        for path in self.work.iterdir():
            if path.name != "lock":
                path.unlink()


def write_whole(path: Path, text: str) -> None:
    """The file with all of ``text``, or as it was before."""
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make names that were changed in ``folder`` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some network file systems refuse it
        pass
    finally:
        os.close(handle)


def _object(path: Path) -> dict[str, Any] | None:
    try:
        held = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return held if isinstance(held, dict) else None


def _difference(before: Mapping[str, Any], call: Mapping[str, Any]) -> str:
    names = sorted(name for name in {*before, *call} if before.get(name) != call.get(name))
    return "other " + ", ".join(names)
