"""Bare ``unhang``: look around and print the one command to type next. It reads names and ``/proc``, judges nothing."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unhang.report.language import resolve_language, translate
from unhang.sentences import Text, say

if TYPE_CHECKING:
    from unhang.watch.process_state.rank_processes import LiveRank

_LOG_PATTERNS = ("*.log", "*.out", "*.err", "slurm-*.out", "*/attempt_*/*/std*.log", "attempt_*/*/std*.log")
_DUMP_PATTERNS = ("*trace_rank_*", "*_dump_*", "comm_traces/rank_*", "*/nccl_trace_rank_*", "*/comm_lib_trace_rank_*")
_BUNDLE_PATTERNS = ("bundle.json", "*/bundle.json", "*/*/bundle.json", "*.tar.gz", "*.tgz", "*.zip")
_FOLDER_LIMIT = 5_000


def explore() -> None:
    """Print what is here and one command."""
    live = _live_ranks()
    bundles, dumps, logs = (
        _matches(Path(), patterns) for patterns in (_BUNDLE_PATTERNS, _DUMP_PATTERNS, _LOG_PATTERNS)
    )
    elsewhere = default_dumps(os.environ)
    lang = resolve_language(None)
    for line in (*_live_job_lines(live), *_evidence_lines(bundles, dumps, logs, elsewhere)):
        print(translate(line, lang))
    command = _next_command(bool(dumps or logs), bundles, elsewhere, live)
    if not command:
        print(translate(say("No rank runs here, and this folder holds no log and no dump"), lang))
        command = f"unhang diagnose PATH   {translate(say('(a log, a folder, or flight-recorder dumps)'), lang)}"
    print(f"\n{translate(say('next: {command}', command=command), lang)}")
    if live and command != "unhang attach":
        print(translate(say("or, while it is stuck: unhang attach"), lang))


def _live_ranks() -> Sequence[LiveRank]:
    if not sys.platform.startswith("linux"):
        return ()
    from unhang.watch.process_state.proc_processes import ProcessTable
    from unhang.watch.process_state.rank_processes import ranks_of

    return ranks_of(ProcessTable.snapshot())


def _live_job_lines(live: Sequence[LiveRank]) -> Iterator[Text]:
    for job in dict.fromkeys(rank.job for rank in live):
        mine = [rank for rank in live if rank.job == job]
        yield say(
            "running on this machine: {count} of {world} ranks ({command})",
            count=len(mine),
            world=mine[0].world_size,
            command=" ".join(mine[0].process.command)[:60],
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


def _next_command(
    anything_here: bool, bundles: list[Path], elsewhere: Mapping[str, int], live: Sequence[LiveRank]
) -> str:
    named = [f"'{prefix}*'" for prefix in elsewhere]
    if anything_here:
        return " ".join(["unhang diagnose .", *named])
    if bundles:
        newest = max(bundles, key=_modified_s)
        return f"unhang diagnose {newest.parent if newest.name == 'bundle.json' else newest}"
    if named:
        return " ".join(["unhang diagnose", *named])
    return "unhang attach" if live else ""


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
