"""Where evidence waits below ``.unhang`` of a run folder while something else stands, or is being made, in its place.

``before``: of the sample before, until a new one has come to its verdict: what is said stays proven. ``judged``: what
the ranks had written when a verdict came to stand; what they leave as the job is ended (``after-abort``) says nothing
of why they waited. ``past``: of waits that are over. ``remark``: of what was said last of a job that moves.
``unsaid``: the verdict of the last sample, while the wait may end by itself.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from unhang.watch import private_files
from unhang.wire.documents.bundle import BundleManifest, read_manifest

_MANIFEST = "bundle.json"
_SAID = ("verdict.json", "report.html")
_DOCUMENTS = (_MANIFEST, *_SAID)
"""They stay in their place until a new verdict takes it."""
MACHINE_FILES = (
    "machine/pace.json",
    "machine/compared.json",
    "machine/memory.log",
    "machine/kernel.log",
    "machine/checkpoints.json",
    "machine/history.json",
    "machine/nodes.json",
)
"""What a sample tells of the machine; its series (``machine/series.jsonl``) goes on through all samples."""
_MOVED = ("stacks", "source", *MACHINE_FILES)
_PARTS = ("dumps", *_MOVED, *_DOCUMENTS)
"""What one sample leaves."""
_WRITTEN_BY_RANKS = ("dumps", "crash")


# The sample before


def set_dumps_aside(folder: Path) -> None:
    """A sample begins: the ranks will write new dumps."""
    restore(folder)
    private_files.make_folder(_aside(folder))
    for name in _DOCUMENTS:
        with suppress(OSError):
            private_files.write_atomically(_aside(folder) / name, (folder / name).read_bytes())
    _move(folder, _aside(folder), "dumps")
    private_files.make_folder(folder / "dumps")


def copy_aside(folder: Path) -> None:
    """A last sample begins, at what the job left: it adds to what is there."""
    restore(folder)
    for name in _PARTS:
        _copy(folder / name, _aside(folder) / name)


def set_rest_aside(folder: Path) -> None:
    """A sample is done, and what it found is about to take its place."""
    for name in _MOVED:
        _move(folder, _aside(folder), name)


def restore(folder: Path) -> None:
    """Put the evidence of the sample before back where a later sample came to nothing."""
    if (_aside(folder) / _MANIFEST).exists():
        for name in _PARTS:
            if (_aside(folder) / name).exists():
                _move(_aside(folder), folder, name)
    else:
        restore_dumps(folder)
    discard(folder)


def restore_dumps(folder: Path, ranks: Iterable[int] | None = None, *, since_s: float | None = None) -> None:
    """Put back dumps of ``ranks`` or all that are written since ``since_s``, where there is no newer one: what a rank
    left as it fell comes only once, and who waits and cannot answer now stands where it stood."""
    names = None if ranks is None else {f"rank_{rank}" for rank in ranks}
    for path in (_aside(folder) / "dumps").glob("rank_*"):
        if (names is None or path.name in names) and not (folder / "dumps" / path.name).exists():
            with suppress(OSError):
                if since_s is None or path.stat().st_mtime >= since_s:
                    _copy(path, folder / "dumps" / path.name)


def discard(folder: Path) -> None:
    """A new verdict stands: the evidence of the one before is needed no more."""
    shutil.rmtree(_aside(folder), ignore_errors=True)


# The verdict of the last sample


def unsaid(folder: Path) -> Path:
    """Where it lies until it is said."""
    return folder / ".unhang" / "unsaid"


def publish(folder: Path) -> None:
    """It is said: from now on it stands where everybody looks."""
    for name in _SAID:
        with suppress(OSError):
            (unsaid(folder) / name).replace(folder / name)


# What the ranks had written when a verdict came to stand


def save_judged(folder: Path) -> None:
    """What the ranks have written for the verdict stays, by links, whoever ends the job later."""
    judged = _judged(folder)
    shutil.rmtree(judged, ignore_errors=True)
    for name in _WRITTEN_BY_RANKS:
        private_files.make_folder(judged / name)
        for path in (folder / name).rglob("*"):  # the dumps of the sample before lie in a folder of their own
            kept = judged / path.relative_to(folder)
            with suppress(OSError):
                if path.is_dir():
                    private_files.make_folder(kept)
                else:
                    os.link(path, kept)


def set_judged_aside(folder: Path) -> None:
    """The end begins: what the ranks have written until now is the verdict's evidence."""
    for name in _WRITTEN_BY_RANKS:
        _move(folder, _judged(folder), name)
        with suppress(OSError):
            private_files.make_folder(folder / name)


def restore_judged_if_live(folder: Path) -> None:
    """The job is over: the evidence of a sample of the living job stands in its place where the verdict is of that
    sample. The end of a job may have shown more, and then it is of the end."""
    with suppress(OSError, ValueError):
        manifest = read_manifest(folder / _MANIFEST, source=_MANIFEST)
        if isinstance(manifest, BundleManifest) and manifest.live:
            restore_judged(folder)
    shutil.rmtree(_judged(folder), ignore_errors=True)


def restore_judged(folder: Path) -> None:
    """It is over: the evidence stands in its place again, and what came since lies in ``.unhang/after-abort``."""
    for name in _WRITTEN_BY_RANKS:
        if (_judged(folder) / name).exists():
            _move(folder, folder / ".unhang" / "after-abort", name)
            _move(_judged(folder), folder, name)
    shutil.rmtree(_judged(folder), ignore_errors=True)


# One sample as a whole


def archive_sample(folder: Path, number: int) -> None:
    """The verdict on a wait that is over is history, and its evidence must not pass for that of a later one."""
    for name in _PARTS:
        _move(folder, folder / ".unhang" / "past" / str(number), name)
    _begin_anew(folder)


def discard_sample(folder: Path) -> None:
    """Nothing came of the last sample."""
    for name in _PARTS:
        _remove(folder / name)
    _begin_anew(folder)


def save_slow_verdict(folder: Path) -> None:
    """A verdict on a job that moves was said: it stays, though later samples of other things come and go."""
    shutil.rmtree(_slow(folder), ignore_errors=True)
    for name in _PARTS:
        _copy(folder / name, _slow(folder) / name)


def _begin_anew(folder: Path) -> None:
    """Where no other verdict stands, what was said last of the moving job stands again."""
    _remove(unsaid(folder))
    with suppress(OSError):
        private_files.make_folder(folder / "dumps")
    if not (folder / "verdict.json").exists() and (_slow(folder) / "verdict.json").exists():
        for path in _slow(folder).iterdir():
            _copy(path, folder / path.name)


def _aside(folder: Path) -> Path:
    return folder / ".unhang" / "before"


def _judged(folder: Path) -> Path:
    return folder / ".unhang" / "judged"


def _slow(folder: Path) -> Path:
    return folder / ".unhang" / "remark"


def _move(source: Path, target: Path, name: str) -> None:
    with suppress(OSError):
        private_files.make_folder((target / name).parent)
        _remove(target / name)
        (source / name).rename(target / name)


def _copy(source: Path, target: Path) -> None:
    """Modes and times stay as they are: only the owner may read, and a dump's time tells which is the newest."""
    with suppress(OSError):
        private_files.make_folder(target.parent)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        elif source.is_file():
            shutil.copy2(source, target)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
