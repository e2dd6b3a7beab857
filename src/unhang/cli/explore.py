"""Bare ``unhang``: look around and print the one command to type next. It reads names and ``/proc``, judges nothing."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from unhang.report.language import resolve_language, translate
from unhang.sentences import Text, say

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
    job: tuple[bytes, ...] = ()
    """What all ranks of one job share: where they meet, and how many they are."""


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
    lang = resolve_language(None, environ)
    for line in (*_live_job_lines(live), *_evidence_lines(bundles, dumps, logs, elsewhere)):
        print(translate(line, lang))
    command = _next_command(bool(dumps or logs), bundles, elsewhere, live)
    if not command:
        print(translate(say("No rank runs here, and this folder holds no log and no dump"), lang))
        command = f"unhang diagnose PATH   {translate(say('(a log, a folder, or flight-recorder dumps)'), lang)}"
    print(f"\n{translate(say('next: {command}', command=command), lang)}")
    if live and command != "unhang attach":
        print(translate(say("or, while it is stuck: unhang attach"), lang))


def _live_job_lines(live: list[LiveRank]) -> Iterator[Text]:
    for job in dict.fromkeys(rank.job for rank in live):
        mine = [rank for rank in live if rank.job == job]
        yield say(
            "running on this machine: {count} of {world} ranks ({command})",
            count=len(mine),
            world=mine[0].world_size,
            command=mine[0].command,
        )


def _evidence_lines(
    bundles: list[Path], dumps: list[Path], logs: list[Path], elsewhere: Mapping[str, int]
) -> Iterator[Text]:
    if bundles:
        yield say("bundles in this folder: {count} ({examples})", count=len(bundles), examples=_examples(bundles))
    if dumps:
        yield say(
            "flight-recorder dumps in this folder: {count} ({examples})", count=len(dumps), examples=_examples(dumps)
        )
    if logs:
        yield say("logs in this folder: {count} ({examples})", count=len(logs), examples=_examples(logs))
    for prefix, count in elsewhere.items():
        yield say("flight-recorder dumps at {prefix}*: {count}", prefix=prefix, count=count)


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


def live_ranks(proc_root: Path) -> Iterator[LiveRank]:
    """Processes of this user with ``RANK`` and ``WORLD_SIZE`` in their environment; not the workers they forked."""
    seen: set[tuple[object, ...]] = set()
    for folder in sorted(proc_root.glob("[0-9]*"), key=lambda path: int(path.name)):
        rank = _live_rank(folder)
        # a rank's own children (loader workers, compilers) carry the same environment and start after it
        if rank is not None and (rank.job, rank.rank) not in seen:
            seen.add((rank.job, rank.rank))
            yield rank


def _live_rank(folder: Path) -> LiveRank | None:
    try:
        pairs = dict(part.split(b"=", 1) for part in (folder / "environ").read_bytes().split(b"\0") if b"=" in part)
        if b"RANK" not in pairs or b"WORLD_SIZE" not in pairs:
            return None
        command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        job = tuple(pairs.get(name, b"") for name in (b"MASTER_ADDR", b"MASTER_PORT", b"WORLD_SIZE"))
        return LiveRank(int(folder.name), int(pairs[b"RANK"]), int(pairs[b"WORLD_SIZE"]), command[:60], job)
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
