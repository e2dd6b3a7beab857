"""Live jobs that nobody here had written: what ``unhang run`` says of each, and ``diagnose`` afterwards.

    python -m benchmarks live-jobs FOLDER [--to file|pipe|terminal|attach] [--only NAME …] [--limit SECONDS]
        [--settled SECONDS] [--slow-after SECONDS] [--python PYTHON]

FOLDER holds a folder a job with ``command``, its programs and ``truth.toml`` (``cause`` and ``accept``, ``ranks`` and
``ranks_accept``, ``file``, ``line``), written before the tool was run by somebody who had not read it; some have
a healthy twin in ``twin_command``. Each runs in a copy until its verdict has stood for ``SETTLED_S``, is ended like by
Ctrl-C, and its run folder is read back. With ``--to attach`` it starts without unhang, which looks at it ``LATE_S``
after the moment its truth names. One row of JSON a job, then the sums.

A job of ``kind = "healthy"`` (a pause or an unevenness that is well) runs to its end like a twin: right is that nothing
was ever found in it. One of ``kind = "slow"`` with a ``phase`` (and ``phase_accept``) moves at the pace of its
``ranks``: right is that these are named with the phase within ``NAMED_WITHIN_S`` of ``when_s``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pty
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

UNHANG = Path(sys.executable).with_name("unhang")
SETTLED_S = 20.0
"""A verdict that has not changed for so long is what the job is held against."""
LATE_S = 20.0
END_S = 40.0
HEALTHY_S = 260.0
NAMED_WITHIN_S = 60.0


@dataclass(frozen=True)
class Way:
    """How the jobs are started."""

    to: str
    python: Path
    settled_s: float = SETTLED_S
    options: tuple[str, ...] = ()
    """Of ``unhang run``."""


@dataclass
class Result:
    """What was said of one job, beside its truth."""

    name: str
    cause: str = ""
    certainty: str = ""
    ranks: tuple[int, ...] = ()
    place: str = ""
    said_after_s: float | None = None
    """From the last moment in which a rank moved, as the verdict has it, to the first verdict."""
    cause_right: bool = False
    ranks_right: bool = False
    line_right: bool = False
    wrong_certain: bool = False
    read_back: str = "not asked"
    """``same``, or what differs where the run folder is diagnosed."""
    summary: str = ""
    phase_right: bool = False
    """Of a straggler: its ranks and phase were named in time."""
    seen: list[tuple[Any, ...]] = field(default_factory=list)
    """Every (second, status, phase, cause, certainty, ranks, place) that ``verdict.json`` held, in its order."""


def _verdict(folder: Path) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError):
        found: dict[str, Any] = json.loads((folder / "verdict.json").read_text("utf-8"))
        return found
    return None


def _lead(verdict: Mapping[str, Any] | None) -> Mapping[str, Any]:
    findings = (verdict or {}).get("findings") or [{}]
    lead: Mapping[str, Any] = findings[0]
    return lead


def _said(verdict: Mapping[str, Any] | None) -> tuple[Any, ...]:
    lead = _lead(verdict)
    where = lead.get("where") or {}
    place = f"{Path(where['file']).name}:{where['line']}" if where.get("file") else ""
    return (lead.get("cause", ""), lead.get("certainty", ""), tuple(lead.get("ranks", ())), place)


@contextlib.contextmanager
def _started(command: str, job: Path, run: Path, way: Way) -> Iterator[subprocess.Popen[bytes]]:
    """The job, under ``unhang run`` unless that attaches, its output led ``way``; all of it ends."""
    tag = f"UNHANG_LIVE_JOB={run.name}"
    path = os.pathsep.join((str(way.python.parent), str(UNHANG.parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path, "UNHANG_LIVE_JOB": run.name, "LC_ALL": "C.UTF-8"}
    words = shlex.split(command)
    if way.to != "attach":
        words = [str(UNHANG), "run", *way.options, "--dir", str(run), "--", *words]
    log = run.with_name(f"{run.name}.log")
    out = log.open("wb")
    ours, theirs = pty.openpty() if way.to == "terminal" else os.pipe()
    cat = subprocess.Popen(["cat"], stdin=ours, stdout=out, stderr=subprocess.DEVNULL)
    os.close(ours)
    heard = signal.signal(signal.SIGINT, signal.SIG_DFL)  # in the background of a shell it is ignored, and inherited so
    process = subprocess.Popen(
        words, cwd=job, env=environment, stdout=theirs if way.to in ("pipe", "terminal") else out,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    signal.signal(signal.SIGINT, heard)
    os.close(theirs)
    try:
        yield process
    finally:
        _end(process)
        for pid in (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()):
            with contextlib.suppress(OSError):
                if tag.encode() in Path(f"/proc/{pid}/environ").read_bytes():
                    os.kill(pid, signal.SIGKILL)
        cat.wait(10)
        out.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, wait_s in ((signal.SIGINT, END_S), (signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0)):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)


def _watch(
    process: subprocess.Popen[bytes], run: Path, limit_s: float, settled_s: float, seen: list[tuple[Any, ...]]
) -> tuple[dict[str, Any] | None, float | None]:
    """The verdict once it has settled, and how long after the last movement the first one was there; each into
    ``seen``."""
    began, since, first_s = time.monotonic(), time.monotonic(), None
    verdict = None
    while time.monotonic() - began < limit_s and process.poll() is None:
        found = _verdict(run)
        if found is not None:
            held = (found.get("status"), _lead(found).get("phase"), *_said(found))
            if not seen or seen[-1][1:] != held:
                since = time.monotonic()
                seen.append((round(since - began, 1), *held))
            if first_s is None and found.get("stalled_since"):
                with contextlib.suppress(OSError):
                    first_s = (run / "verdict.json").stat().st_mtime - _moment(found["stalled_since"])
            verdict = found
            if time.monotonic() - since > settled_s:
                break
        time.sleep(0.2)
    return _verdict(run) or verdict, first_s


def _moment(text: str) -> float:
    from datetime import datetime, timezone

    found = datetime.fromisoformat(text.replace(" ", "T"))
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()


def _read_back(run: Path, verdict: Mapping[str, Any] | None) -> str:
    done = subprocess.run(
        [str(UNHANG), "diagnose", str(run), "--format", "json"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    try:
        again = json.loads(done.stdout)
    except ValueError:
        return f"no verdict: {done.stderr[-150:]}"
    wanted, found = _said(verdict), _said(again)
    levels = ("", "possible", "likely", "certain")
    same = (wanted[0], wanted[2], wanted[3]) == (found[0], found[2], found[3])
    return "same" if same and levels.index(found[1]) >= levels.index(wanted[1]) else f"{wanted} became {found}"


def judged(name: str, truth: Mapping[str, Any], verdict: Mapping[str, Any] | None) -> Result:
    """The verdict held against the truth."""
    cause, certainty, ranks, place = _said(verdict)
    found = Result(name, cause, certainty, ranks, place, summary=str(_lead(verdict).get("summary", ""))[:160])
    found.cause_right = cause in (truth["cause"], *truth.get("accept", ()))
    found.ranks_right = _are_ranks(ranks, truth)
    file, _, line = place.rpartition(":")
    found.line_right = file == Path(truth.get("file", "")).name and line.isdigit() and int(line) in truth["line"]
    found.wrong_certain = certainty == "certain" and not found.cause_right
    return found


def _are_ranks(ranks: Sequence[int], truth: Mapping[str, Any]) -> bool:
    return sorted(ranks) in [sorted(one) for one in (truth["ranks"], *truth.get("ranks_accept", ()))]


def is_named_in_time(truth: Mapping[str, Any], seen: Sequence[tuple[Any, ...]]) -> bool:
    """Whether the straggler of ``truth`` and what it does longer were said soon after it had grown slow."""
    phases = (truth.get("phase"), *truth.get("phase_accept", ()))
    return any(
        phase in phases and _are_ranks(ranks, truth) and second - float(truth.get("when_s", 0.0)) <= NAMED_WITHIN_S
        for second, _, phase, _, _, ranks, _ in seen
    )


def is_silent(seen: Sequence[tuple[Any, ...]]) -> bool:
    """Whether nothing was ever found in a healthy job."""
    return all(status in ("healthy", "unknown") and not cause for _, status, _, cause, *_ in seen)


def _attached(
    process: subprocess.Popen[bytes], run: Path, stuck_s: float
) -> tuple[dict[str, Any] | None, float | None]:
    """What ``unhang attach`` says of a job that has been stuck for a while, and how long it took."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(stuck_s + LATE_S)
    began = time.monotonic()
    done = subprocess.run(
        [str(UNHANG), "attach", str(process.pid), "--dir", str(run), "--format", "json"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    with contextlib.suppress(ValueError):
        return json.loads(done.stdout), time.monotonic() - began
    return None, None


def _job(folder: Path, truth: Mapping[str, Any], scratch: Path, way: Way, limit_s: float) -> Result:
    job, run = scratch / folder.name, scratch / f"{folder.name}-run"
    shutil.copytree(folder, job, ignore=shutil.ignore_patterns("truth.toml", "README.md"))
    seen: list[tuple[Any, ...]] = []
    with _started((folder / "command").read_text("utf-8").strip(), job, run, way) as process:
        if way.to == "attach":
            verdict, first_s = _attached(process, run, float(truth["when_s"]))
        else:
            verdict, first_s = _watch(process, run, limit_s, way.settled_s, seen)
    last = None if way.to == "attach" else _verdict(run)
    found = judged(folder.name, truth, last or verdict)
    found.said_after_s = round(first_s, 1) if first_s is not None else None
    found.read_back = _read_back(run, last or verdict)
    found.seen, found.phase_right = seen, is_named_in_time(truth, seen)
    return found


def _healthy(folder: Path, scratch: Path, way: Way, kind: str, command: str) -> Result:
    """A job that is well, until its end."""
    job, run = scratch / f"{folder.name}-{kind}", scratch / f"{folder.name}-{kind}-run"
    shutil.copytree(folder, job, ignore=shutil.ignore_patterns("truth.toml", "README.md"))
    seen: list[tuple[Any, ...]] = []
    with _started((folder / command).read_text("utf-8").strip(), job, run, way) as process:
        _watch(process, run, HEALTHY_S, HEALTHY_S, seen)
        code = process.poll()
    verdict = _verdict(run)
    found = Result(f"{folder.name} ({kind})", *_said(verdict))
    found.seen = seen
    past = len(list((run / ".unhang/past").glob("*")))
    found.summary = f"{(verdict or {}).get('status')}, exit {code}; past: {past}"
    found.cause_right = (verdict or {}).get("status") == "healthy" and code == 0 and is_silent(seen) and not past
    return found


def main(arguments: Sequence[str]) -> int:
    """Run them one after another."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks live-jobs", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--to", choices=("file", "pipe", "terminal", "attach"), default="file")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="the job's")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--limit", type=float, default=110.0)
    parser.add_argument("--slow-after", default="", help="s, as of unhang run")
    parser.add_argument("--settled", type=float, default=SETTLED_S, help="s, a verdict is to stand so long")
    parser.add_argument("--twins", action=argparse.BooleanOptionalAction, default=True)
    asked = parser.parse_args(arguments)
    way = Way(asked.to, asked.python, asked.settled, ("--slow-after", asked.slow_after) if asked.slow_after else ())
    results, twins, stragglers = [], [], []
    scratch = Path(tempfile.mkdtemp(prefix="live-jobs-"))
    print(f"in {scratch}", flush=True)
    for folder in sorted(path.parent for path in asked.folder.glob("*/truth.toml")):
        if asked.only and folder.name not in asked.only:
            continue
        truth = tomllib.loads((folder / "truth.toml").read_text("utf-8"))
        if truth.get("kind") == "healthy":
            twins.append(_healthy(folder, scratch, way, "healthy", "command"))
            print(json.dumps(asdict(twins[-1])), flush=True)
            continue
        results.append(_job(folder, truth, scratch, way, asked.limit))
        stragglers += [results[-1]] if "phase" in truth else []
        print(json.dumps(asdict(results[-1])), flush=True)
        if asked.twins and way.to != "attach" and (folder / "twin_command").is_file():
            twins.append(_healthy(folder, scratch, way, "twin", "twin_command"))
            print(json.dumps(asdict(twins[-1])), flush=True)
    count = len(results)
    delays = sorted(r.said_after_s for r in results if r.said_after_s is not None)
    middle = f"{delays[len(delays) // 2]:.1f} s" if delays else "–"
    sums = {
        "cause": sum(r.cause_right for r in results),
        "ranks": sum(r.ranks_right for r in results),
        "line": sum(r.line_right for r in results),
        "wrong certain": sum(r.wrong_certain for r in results),
        "read back the same": sum(r.read_back == "same" for r in results),
    }
    print(", ".join(f"{what} {value}/{count}" for what, value in sums.items()))
    print(f"twins and other healthy jobs well {sum(r.cause_right for r in twins)}/{len(twins)}")
    print(f"stragglers named in time {sum(r.phase_right for r in stragglers)}/{len(stragglers)}")
    print(f"first verdict after {middle} (median)")
    return 0
