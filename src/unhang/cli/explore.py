"""Bare ``unhang``: look around and print the one command to type next. It reads names and ``/proc``, judges nothing;
of several jobs of this user it looks which stand still."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from unhang.report.language import resolve_language, translate
from unhang.sentences import Text, say

_LOG_PATTERNS = ("*.log", "*.out", "*.err", "slurm-*.out", "*/attempt_*/*/std*.log", "attempt_*/*/std*.log")
_DUMP_PATTERNS = ("*trace_rank_*", "*_dump_*", "comm_traces/rank_*", "*/nccl_trace_rank_*", "*/comm_lib_trace_rank_*")
_BUNDLE_PATTERNS = ("bundle.json", "*/bundle.json", "*/*/bundle.json", "*.tar.gz", "*.tgz", "*.zip")
_FOLDER_LIMIT = 5_000


def explore(language: str | None = None) -> None:
    """Print what is here and one command."""
    live = _live_jobs()
    bundles, dumps, logs = (
        _matches(Path(), patterns) for patterns in (_BUNDLE_PATTERNS, _DUMP_PATTERNS, _LOG_PATTERNS)
    )
    elsewhere = default_dumps(os.environ)
    lang = resolve_language(language)
    for line in (
        *(say("running on this machine: {job}", job=job) for job, _ in live),
        *_evidence_lines(bundles, dumps, logs, elsewhere),
    ):
        print(translate(line, lang))
    attach = next((command for _, command in live if command), "unhang attach" if live else "")
    command = _next_command(bool(dumps or logs), bundles, elsewhere, attach)
    if not command:
        print(translate(say("No rank is running here, and this folder has no log or dump"), lang))
        command = f"unhang diagnose PATH   {translate(say('(a log, a folder, or flight-recorder dumps)'), lang)}"
    print(f"\n{translate(say('next: {command}', command=command), lang)}")
    if attach and command != attach:
        print(translate(say("or, while it is stuck: {command}", command=attach), lang))


def _live_jobs() -> list[tuple[str, str]]:
    """What runs here, and the command that looks at it: of several jobs only for the one that the user most likely
    means."""
    if not sys.platform.startswith("linux"):
        return []
    from unhang.watch.attach.rank_selection import job_name, jobs_of, likely_jobs
    from unhang.watch.process_state.proc_processes import ProcessTable
    from unhang.watch.process_state.rank_processes import ranks_of

    jobs = jobs_of(ranks_of(ProcessTable.snapshot()))
    likely, still = likely_jobs(jobs) if len(jobs) > 1 else ([], [])
    first = {job: ranks[0] for job, ranks in jobs.items()}
    commands = {job: f"unhang attach {first[job].launcher or first[job].pid}" for job in likely if len(likely) == 1}
    return [(job_name(ranks, job in still), commands.get(job, "")) for job, ranks in jobs.items()]


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


def _next_command(anything_here: bool, bundles: list[Path], elsewhere: Mapping[str, int], attach: str) -> str:
    named = [f"'{prefix}*'" for prefix in elsewhere]
    if anything_here:
        return " ".join(["unhang diagnose .", *named])
    if bundles:
        newest = max(bundles, key=_modified_s)
        return f"unhang diagnose {newest.parent if newest.name == 'bundle.json' else newest}"
    if named:
        return " ".join(["unhang diagnose", *named])
    return attach


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
        with suppress(OSError):  # a folder that goes away while it is read
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
