"""Follow one line and one heartbeat through the house: how many files and rooms they pass on their way to a verdict.

    python scripts/trip.py [CHECKOUT] [--only line|heartbeat]

*The trip of a line*: ``unhang diagnose`` of a log of five lines, one of which says that memory ran out, in a fresh
process. What each figure means (what runs while a module is being imported counts for the first two alone):

- *files executed*: files of ours that hold code and of which any ran, if only that of the module itself; *loaded*:
  their lines of code and their lines (both as in ``scripts/house.py``);
- *handed the text*: functions, and their files, that were called with a string that holds the line, by itself or in a
  tuple, list, set or dictionary; *handed what holds it*: the same, with objects that lead to it over attributes;
- *changes of room*: how often a function of ours ran after one of another room; *doors*: over how many different
  pairs of files, caller and called, a call went from one room into another.

*The trip of a heartbeat*: ``unhang run`` of a job of two ranks (torch, gloo, no accelerator); one falls asleep. Every
process is traced by a ``sitecustomize`` on PYTHONPATH. Counted is what ran from the moment at which the rank fell
asleep until the verdict had been printed:

- in the *ranks* (both as one), in the *look* (the forked process that ran the most files) and in the *watcher*
  (the process it was forked from; of it also what it ran *until the look began*): files of ours of which a function
  was called, and *doors* as above. A file that several of them ran counts once in the sum.
- *beside the trip*: what other processes of ours (the launcher, samplers, further looks) ran meanwhile; not in the sum.

Which ticks fall into that time is chance, so these figures may differ by one or two files from run to run. Tracing
makes everything several times slower: no time is measured here.
"""

from __future__ import annotations

import _thread
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

LIMIT_S = 240.0
MARK = "2.37 GiB"
LOG = f"""\
step 40 loss 2.3142
step 41 loss 2.2987
[rank1]: Traceback (most recent call last):
[rank1]:   File "/job/train.py", line 88, in <module>
[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {MARK}. GPU 1 has a total capacity of 79.15 GiB.
"""
JOB = """\
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
value = torch.ones(4)
for step in range(10):
    dist.all_reduce(value)
    time.sleep(0.3)
if dist.get_rank() == 1:
    Path(sys.argv[1]).write_text(str(time.time()))
    time.sleep(600)
dist.all_reduce(value)
"""
HOOK = """\
import sys
sys.path.append({scripts!r})
import trip
trip.trace_process({logs!r}, {roots!r})
sys.path.remove({scripts!r})
"""
_PAGE_S = 0.5
_DEEPEST, _MAX_CALLS = 8, 4000
Call = tuple[str, str, str]
"""File of the caller, file of what is called, and its name."""


class Ours:
    """Which code lies below ``roots``, and in which room."""

    def __init__(self, roots: Iterable[str]) -> None:
        self._roots = tuple(f"{root}/" for root in roots)
        self._known: dict[str, str] = {}

    def file(self, code: CodeType) -> str:
        """The file of ``code`` below its root; empty when it is not ours."""
        name = code.co_filename
        if name not in self._known:
            root = next((root for root in self._roots if name.startswith(root)), None)
            self._known[name] = name[len(root) :] if root is not None else ""
        return self._known[name]

    def caller(self, frame: FrameType) -> str:
        """The nearest file of ours that ``frame`` was called from."""
        above = frame.f_back
        while above is not None:
            if file := self.file(above.f_code):
                return file
            above = above.f_back
        return ""


def room_of(file: str) -> str:
    """The first folder or module of ``unhang``; a package beside it as a whole."""
    package, *inside = file.removesuffix(".py").split("/")
    return inside[0] if package == "unhang" else package


def doors(calls: Iterable[Call]) -> set[tuple[str, str]]:
    """Pairs of files of different rooms."""
    return {(caller, file) for caller, file, _ in calls if caller and room_of(caller) != room_of(file)}


class LineTracer:
    """Sees every call of ours in this process."""

    def __init__(self, ours: Ours, mark: str) -> None:
        self._ours, self._mark = ours, mark
        self.executed: set[str] = set()
        self.calls: set[Call] = set()
        self.with_text: set[CodeType] = set()
        self.with_holder: set[CodeType] = set()
        self.changes = 0
        self._room = ""
        self._importing = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """A profile function."""
        if event not in ("call", "return"):
            return
        code = frame.f_code
        file = self._ours.file(code)
        if not file:
            return
        if code.co_name == "<module>":
            self.executed.add(file)
            self._importing += 1 if event == "call" else -1
        elif event == "call" and not self._importing:
            self._called(frame, code, file)

    def _called(self, frame: FrameType, code: CodeType, file: str) -> None:
        self.executed.add(file)
        self.calls.add((self._ours.caller(frame), file, code.co_name))
        room = room_of(file)
        self.changes += room != self._room
        self._room = room
        if code in self.with_text:
            return
        given = list(frame.f_locals.values())
        if holds(given, self._mark):
            self.with_text.add(code)
        elif code not in self.with_holder and leads_to(given, self._mark):
            self.with_holder.add(code)


def holds(value: object, mark: str, depth: int = 3) -> bool:
    """Whether ``value`` is text with ``mark`` in it, or a plain container of such."""
    if isinstance(value, str):
        return mark in value
    if isinstance(value, (bytes, bytearray)):
        return mark.encode() in value
    if depth == 0 or type(value) not in (list, tuple, set, frozenset, dict):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return any(holds(item, mark, depth - 1) for item in inside)  # type: ignore[attr-defined]


def leads_to(value: object, mark: str) -> bool:
    """Whether text with ``mark`` is reached from ``value`` over items and attributes."""
    seen: set[int] = set()
    ahead = [(value, 0)]
    while ahead and len(seen) < _MAX_CALLS:
        item, depth = ahead.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if holds(item, mark, 0):
            return True
        if depth < _DEEPEST:
            ahead += [(inner, depth + 1) for inner in parts(item)]
    return False


def parts(item: object) -> Iterator[object]:
    """What a container or an object of ours holds."""
    if isinstance(item, dict):
        yield from item.values()
    elif isinstance(item, (list, tuple, set, frozenset)):
        yield from item
    elif type(item).__module__.startswith("unhang"):
        yield from vars(item).values() if hasattr(item, "__dict__") else ()
        for kind in type(item).__mro__:
            names = kind.__dict__.get("__slots__", ())
            yield from (getattr(item, name, None) for name in ((names,) if isinstance(names, str) else names))


def diagnose_traced(roots: list[str], entry: str, log: str) -> None:
    """Run the command on ``log`` and print what was seen as the last line."""
    ours = Ours(roots)
    tracer = LineTracer(ours, MARK)
    module, _, function = entry.partition(":")
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    with suppress(SystemExit):
        getattr(import_module(module), function)(["diagnose", log])
    sys.setprofile(None)
    found = {
        "executed": sorted(tracer.executed),
        "with_text": [(ours.file(code), code.co_name) for code in tracer.with_text],
        "with_holder": [(ours.file(code), code.co_name) for code in tracer.with_text | tracer.with_holder],
        "called": sorted({call[1:] for call in tracer.calls}),
        "changes": tracer.changes,
        "doors": sorted(doors(tracer.calls)),
    }
    print("\n" + json.dumps(found))


class ProcessTracer:
    """Writes down what is called in this process and in its forks.

    Each call once in every half second, and at once: a process may end at any moment.
    """

    def __init__(self, ours: Ours, logs: str) -> None:
        self._ours, self._logs = ours, logs
        self._pid, self._until = 0, 0.0
        self._seen: set[tuple[CodeType, str]] = set()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """A profile function."""
        code = frame.f_code
        if event != "call" or code.co_name == "<module>" or not (file := self._ours.file(code)):
            return
        now = time.time()
        self._turn_page(now)
        caller = self._ours.caller(frame)
        if (code, caller) not in self._seen:
            self._seen.add((code, caller))
            self._write(now, caller, file, code.co_name)

    def _turn_page(self, now: float) -> None:
        if self._pid != os.getpid():
            parent, self._pid, self._until = self._pid, os.getpid(), 0.0
            self._write("process", parent, "RANK" in os.environ)
        if now > self._until:
            self._until = now + _PAGE_S
            self._seen.clear()

    def _write(self, *words: object) -> None:
        with suppress(OSError):
            number = os.open(f"{self._logs}/{self._pid}", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            os.write(number, (json.dumps(words) + "\n").encode())
            os.close(number)


def trace_process(logs: str, roots: list[str]) -> None:
    """Trace every thread of this process, those too that ``threading`` does not know: a rank beats in one of them."""
    tracer = ProcessTracer(Ours(roots), logs)
    start = _thread.start_new_thread

    def start_traced(function: Callable[..., object], *given: Any) -> int:
        def run(*words: Any, **named: Any) -> None:
            sys.setprofile(tracer)
            function(*words, **named)

        return start(run, *given)

    _thread.start_new_thread = start_traced
    threading.setprofile(tracer)
    sys.setprofile(tracer)


def roots_of(checkout: Path) -> list[str]:
    """The folders that the packages of ``checkout`` lie in."""
    return sorted({str(path.parent) for path in (*checkout.glob("src/*/"), *checkout.glob("packages/*/src/*/"))})


def environment(checkout: Path, *before: str) -> dict[str, str]:
    """With the code of ``checkout`` first on the path."""
    return os.environ | {"PYTHONPATH": os.pathsep.join((*before, *roots_of(checkout)))}


def entry_of(checkout: Path) -> str:
    """What the command ``unhang`` runs."""
    return next(
        line.split('"')[1]
        for line in (checkout / "pyproject.toml").read_text(encoding="utf-8").splitlines()
        if line.startswith("unhang = ")
    )


def trip_of_a_line(checkout: Path, folder: Path) -> None:
    """Print it."""
    log = folder / "train.log"
    log.write_text(LOG, encoding="utf-8")
    words = [sys.executable, __file__, "--diagnose", str(log), str(checkout)]
    run = subprocess.run(words, env=environment(checkout), capture_output=True, text=True, timeout=LIMIT_S, check=True)
    found = json.loads(run.stdout.splitlines()[-1])
    executed = loaded(checkout, found["executed"])
    print("The trip of a line (five-line log, one line says that memory ran out)")
    print(f"  files executed         {len(executed)}")
    code, lines = (sum(column) for column in zip(*executed, strict=True))
    print(f"  loaded                 {code} lines of code, {lines} lines")
    print(f"  handed the text        {_handed(found['with_text'])}")
    print(f"  handed what holds it   {_handed(found['with_holder'])}")
    print(f"  changes of room        {found['changes']}")
    print(f"  doors                  {len(found['doors'])}")


def _handed(functions: list[tuple[str, str]]) -> str:
    return f"{len(functions)} functions in {len({file for file, _ in functions})} files"


def loaded(checkout: Path, files: Iterable[str]) -> list[tuple[int, int]]:
    """Lines of code and lines of each of ``files`` that holds code."""
    from house import docstring_lines, modules, token_lines

    wanted = {f"{root}/{file}" for root in roots_of(checkout) for file in files}
    found = [module for module in modules(checkout) if str(module.path) in wanted]
    sizes = [(len(token_lines(module.text) - docstring_lines(module.tree)), module.lines) for module in found]
    return [size for size in sizes if size[0]]


def trip_of_a_heartbeat(checkout: Path, folder: Path) -> None:
    """Print it."""
    logs, hook, run = folder / "logs", folder / "hook", folder / "run"
    logs.mkdir()
    hook.mkdir()
    hook.joinpath("sitecustomize.py").write_text(
        HOOK.format(scripts=str(Path(__file__).parent), logs=str(logs), roots=roots_of(checkout))
    )
    job, asleep = folder / "sleeps.py", folder / "asleep"
    job.write_text(JOB)
    began, over = _stalled(checkout, [str(job), str(asleep)], hook, run, asleep)
    processes = read_logs(logs, began, over)
    look = max((seen for seen in processes.values() if seen.parent), key=lambda seen: len(seen.files))
    watcher = processes[look.parent]
    ranks = joined(seen for seen in processes.values() if seen.is_rank)
    beside = [seen for seen in processes.values() if seen.files and not seen.is_rank and seen not in (look, watcher)]
    print("The trip of a heartbeat (two ranks, one falls asleep, until the verdict is printed)")
    print(f"  ranks                  {ranks}")
    print(f"  watcher                {watcher}")
    print(f"  until the look began   {_read_log(logs / str(look.parent), began, look.first_s)}")
    print(f"  look                   {look}")
    print(f"  together               {joined((ranks, watcher, look))}")
    print(f"  beside the trip        {joined(beside)}, in {len(beside)} processes")


@dataclass(frozen=True)
class Traced:
    """One process: the one it was forked from (0 when it was started), and what it called."""

    parent: int
    is_rank: bool
    calls: frozenset[Call]
    first_s: float = 0.0

    @property
    def files(self) -> set[str]:
        """Of ours, of which a function was called."""
        return {file for _, file, _ in self.calls}

    def __str__(self) -> str:
        return f"{len(self.files)} files, {len(doors(self.calls))} doors"


def joined(several: Iterable[Traced]) -> Traced:
    """As if they were one process."""
    return Traced(0, False, frozenset(call for seen in several for call in seen.calls))


def read_logs(logs: Path, began: float, over: float) -> Mapping[int, Traced]:
    """Every process that was traced, by pid, with its calls between the two moments."""
    return {int(path.name): _read_log(path, began, over) for path in logs.iterdir()}


def _read_log(path: Path, began: float, over: float) -> Traced:
    rows: list[Any] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    (_, parent, is_rank), *_ = (row for row in rows if row[0] == "process")
    calls = frozenset(tuple(row[1:]) for row in rows if row[0] != "process" and began <= row[0] <= over)
    return Traced(parent, is_rank, calls, min((row[0] for row in rows if row[0] != "process"), default=0.0))


def _stalled(checkout: Path, job: list[str], hook: Path, run: Path, asleep: Path) -> tuple[float, float]:
    """Run the job until its verdict is printed: when it fell asleep, and when that was."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *job]
    module, _, function = entry_of(checkout).partition(":")
    command = [sys.executable, "-c", f"from {module} import {function}; {function}()"]
    terminal = run.with_name("terminal.txt")
    with terminal.open("wb") as printed:
        front = subprocess.Popen(
            [*command, "run", "--dir", str(run), "--", *torchrun],
            env=environment(checkout, str(hook)),
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        )
    try:
        _wait_for(lambda: _is_printed(run / "verdict.json", terminal), front)
        over = time.time()
    finally:
        front.send_signal(signal.SIGTERM)
        front.wait(60)
    return float(asleep.read_text()), over


def _is_printed(verdict: Path, terminal: Path) -> bool:
    if not verdict.is_file():
        return False
    cause: str = json.loads(verdict.read_bytes())["findings"][0]["cause"]
    return cause in terminal.read_text(encoding="utf-8", errors="replace")


def _wait_for(happened: Callable[[], bool], front: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + LIMIT_S
    while not happened():
        if front.poll() is not None:
            raise SystemExit("the job ended before there was a verdict; is torch installed?")
        if time.monotonic() > limit:
            raise SystemExit(f"no verdict within {LIMIT_S:g} s")
        time.sleep(0.05)


def main() -> None:
    """Make the trips."""
    parser = argparse.ArgumentParser(description="Follow one line and one heartbeat through the house.")
    parser.add_argument("checkout", nargs="?", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--only", choices=("line", "heartbeat"))
    parser.add_argument("--diagnose", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    checkout = asked.checkout.resolve()
    if asked.diagnose:
        diagnose_traced(roots_of(checkout), entry_of(checkout), asked.diagnose)
        return
    with tempfile.TemporaryDirectory(prefix="unhang-trip-") as folder:
        if asked.only != "heartbeat":
            trip_of_a_line(checkout, Path(folder))
        if asked.only != "line":
            trip_of_a_heartbeat(checkout, Path(folder))


if __name__ == "__main__":
    main()
