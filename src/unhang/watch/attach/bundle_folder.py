"""Where the evidence goes: a private folder, one a host where a job has several."""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path

from unhang.errors import UsageError
from unhang.watch import private_files


def create_bundle_folder(named: Path | None, *, host: str, several_hosts: bool) -> Path:
    """A new private folder: ``named``, ``named/HOST`` where the job has ranks on other hosts, or ``unhang-runs/TIME``.

    Raises:
        UsageError: it holds something already, or cannot be made.
    """
    try:
        if named is None:
            return _default()
        path = named.absolute()
        if several_hosts:
            path = path / (re.sub(r"[^\w.-]", "_", host) or "host")
        if path.is_dir() and any(path.iterdir()):
            raise UsageError(f"{path} already holds something; name another folder with --dir")
        return _private(path)
    except OSError as error:
        raise UsageError(f"{named or 'unhang-runs'} cannot be used for the evidence ({error.strerror})") from error


def _default() -> Path:
    stem = Path("unhang-runs") / f"attach-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in range(1, 100):
        path = stem if number == 1 else stem.with_name(f"{stem.name}-{number}")
        try:
            if not path.exists():
                return _private(path)
        except OSError:
            break
    # the folder we stand in takes no files; the evidence must not be lost for that
    return Path(tempfile.mkdtemp(prefix="unhang-attach-"))


def _private(path: Path) -> Path:
    private_files.make_folder(path)
    path.chmod(0o700)
    return path
