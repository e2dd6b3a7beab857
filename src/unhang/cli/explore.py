"""Bare ``unhang``: look around and print the one command to type next. It reads names and ``/proc``, judges nothing."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

_LOG_PATTERNS = ("*.log", "*.out", "*.err", "slurm-*.out", "*/attempt_*/*/std*.log", "attempt_*/*/std*.log")
_DUMP_PATTERNS = ("*trace_rank_*", "*_dump_*", "comm_traces/rank_*", "*/nccl_trace_rank_*", "*/comm_lib_trace_rank_*")
_BUNDLE_PATTERNS = ("bundle.json", "*/bundle.json", "*/*/bundle.json", "*.tar.gz", "*.tgz", "*.zip")
_FOLDER_LIMIT = 5_000


@dataclass(frozen=True, slots=True)
class LiveRank:
    """A process of this user whose environment says that it is a rank."""

    pid: int
    rank: int
    world_size: int
    command: str


def explore(
    *, folder: Path = Path(), proc_root: Path = Path("/proc"), environ: Mapping[str, str] | None = None
) -> None:
    """Print what is here and one command."""
    environ = os.environ if environ is None else environ
    live = sorted(live_ranks(proc_root), key=lambda rank: (rank.rank, rank.pid))
    bundles, dumps, logs = (
        _matches(folder, patterns) for patterns in (_BUNDLE_PATTERNS, _DUMP_PATTERNS, _LOG_PATTERNS)
    )
    elsewhere = default_dumps(environ)
    if live:
        typer.echo(f"{len(live)} of {live[0].world_size} ranks are running on this machine ({live[0].command})")
    for found, word in ((bundles, "bundle"), (dumps, "flight-recorder dump"), (logs, "log")):
        if found:
            typer.echo(f"{len(found)} {word}{'s' if len(found) > 1 else ''} in this folder: {_examples(found)}")
    for prefix, count in elsewhere.items():
        typer.echo(f"{count} flight-recorder dump{'s' if count > 1 else ''} at {prefix}*")
    command = _next_command(bool(dumps or logs), bundles, elsewhere, live)
    typer.echo(f"\nnext: {command}" if command else _nothing_here())


def _next_command(anything_here: bool, bundles: list[Path], elsewhere: Mapping[str, int], live: list[LiveRank]) -> str:
    named = [f"'{prefix}*'" for prefix in elsewhere]
    if anything_here:
        return " ".join(["unhang diagnose .", *named])
    if bundles:
        newest = max(bundles, key=_modified_s)
        return f"unhang diagnose {newest.parent if newest.name == 'bundle.json' else newest}"
    if named:
        return " ".join(["unhang diagnose", *named])
    return "unhang attach" if live else ""


def _nothing_here() -> str:
    return (
        "No rank runs here and this folder holds no log and no dump.\n\n"
        "next: unhang diagnose PATH   (the job's log, its folder, or its flight-recorder dumps)"
    )


def live_ranks(proc_root: Path) -> Iterator[LiveRank]:
    """Processes of this user with ``RANK`` and ``WORLD_SIZE`` in their environment; not the workers they forked."""
    seen: set[int] = set()
    for folder in sorted(proc_root.glob("[0-9]*"), key=lambda path: int(path.name)):
        rank = _live_rank(folder)
        # a rank's own children (loader workers, compilers) carry the same environment and start after it
        if rank is not None and rank.rank not in seen:
            seen.add(rank.rank)
            yield rank


def _live_rank(folder: Path) -> LiveRank | None:
    try:
        pairs = dict(part.split(b"=", 1) for part in (folder / "environ").read_bytes().split(b"\0") if b"=" in part)
        if b"RANK" not in pairs or b"WORLD_SIZE" not in pairs:
            return None
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        return LiveRank(int(folder.name), int(pairs[b"RANK"]), int(pairs[b"WORLD_SIZE"]), command[:60])
    except (OSError, ValueError):
        return None


def default_dumps(environ: Mapping[str, str]) -> dict[str, int]:
    """Prefixes where PyTorch's flight recorder writes unless told otherwise, and how many files stand there."""
    home = Path(environ.get("HOME", str(Path.home())))
    cache = environ.get("XDG_CACHE_HOME") or str(home / ".cache")
    prefixes = [
        environ.get("TORCH_FR_DUMP_TEMP_FILE", ""),
        environ.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE", ""),
        f"{cache}/torch/comm_lib_trace_rank_",
        f"{cache}/torch/nccl_trace_rank_",
        "/tmp/nccl_trace_rank_",  # noqa: S108 - torch 2.2 to 2.6 write there
    ]
    counts = {prefix: len(glob.glob(f"{glob.escape(prefix)}[0-9]*")) for prefix in dict.fromkeys(prefixes) if prefix}  # noqa: PTH207
    return {prefix: count for prefix, count in counts.items() if count}


def _matches(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    found: dict[Path, None] = {}
    for pattern in patterns:
        for path in folder.glob(pattern):
            if len(found) >= _FOLDER_LIMIT:
                break
            if path.is_file():
                found[path] = None
    return sorted(found)


def _examples(found: list[Path]) -> str:
    names = ", ".join(str(path) for path in found[:3])
    return names + (", …" if len(found) > 3 else "")


def _modified_s(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
