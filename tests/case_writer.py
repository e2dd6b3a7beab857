"""Write a small stalled job as a case folder: a program, and what its ranks left behind when they stood in its lines.

Lines are named by a piece of the program that occurs once, so that a case reads like the story it tells. The writers
in ``cases/make_*.py`` use it; run ``python -m tests.cases.make_all`` after changing one of them.
"""

from __future__ import annotations

import ast
import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unhang_lab.dump_writer import make_dump, make_entry, pickle_like_torch

CASES = Path(__file__).parent / "cases"
PROGRAM = "/workspace/job/train.py"
LIBRARY = "/opt/venv/lib/python3.11/site-packages/"
COLLECTIVE = "torch/distributed/distributed_c10d.py"
START_NS = 1_760_000_000_000_000_000
SECOND = 1_000_000_000
PID = 4000


class Job:
    """A job of ``ranks`` ranks that run ``program``; ``groups`` are its groups besides the default one, by name."""

    def __init__(
        self, program: str, ranks: int, *, groups: Mapping[str, Sequence[int]] | None = None, backend: str = "nccl"
    ) -> None:
        self.backend = backend
        self.program = program.lstrip("\n")
        self.ranks = ranks
        self.groups: dict[str, Sequence[int]] = {"0": range(ranks), **(groups or {})}
        self.files: dict[str, bytes] = {}
        self.processes: dict[int, dict[str, Any]] = {}
        self.manifest: dict[str, Any] = {}
        """Keys of the manifest that differ from the usual ones."""
        self.missing: set[int] = set()
        """Ranks of which nothing at all is left."""
        self._entries: dict[int, list[dict[str, Any]]] = {}
        self._status: dict[int, dict[str, tuple[int, int]]] = {}
        self._functions = [n for n in ast.walk(ast.parse(self.program)) if isinstance(n, ast.FunctionDef)]

    def frames(self, at: str) -> list[dict[str, Any]]:
        """Frames of the pieces of code in ``at`` (``inner < outer``), innermost first."""
        return [self._frame(code.strip()) for code in at.split(" < ")] if at else []

    def _frame(self, code: str) -> dict[str, Any]:
        numbered = list(enumerate(self.program.splitlines(), 1))
        lines = [n for n, line in numbered if line.strip() == code] or [n for n, line in numbered if code in line]
        assert len(lines) == 1, f"{code!r} stands on lines {lines} of the program"
        around = [f for f in self._functions if f.lineno < lines[0] <= (f.end_lineno or 0)]
        name = max(around, key=lambda f: f.lineno).name if around else "<module>"
        return {"name": name, "filename": PROGRAM, "line": lines[0]}

    def place(self, code: str) -> dict[str, Any]:
        """``where`` as ``expected.json`` spells it."""
        frame = self._frame(code)
        return {"file": "train.py", "line": frame["line"], "function": frame["name"]}

    # ------------------------------------------------------------------------------------------------ dumps

    def call(
        self, ranks: Iterable[int], position: int, operation: str = "all_reduce", at: str = "", **parts: Any
    ) -> None:
        """A collective of ``ranks``; ``open=True`` leaves it unfinished."""
        finished = not parts.pop("open", False)
        # Gloo's records stay "scheduled"; only "retired" says that they ended.
        state = "completed" if finished and self.backend != "gloo" else "scheduled"
        group = parts.pop("group", "0")
        size = parts.pop("size", (8,))
        frames = [{"name": operation, "filename": LIBRARY + COLLECTIVE, "line": 3042}, *self.frames(at)] if at else None
        for rank in ranks:
            mine = self._entries.setdefault(rank, [])
            entry = make_entry(
                "2.13",
                record_id=parts.get("first_record", 0) + len(mine),
                pg_id=self._pg_id(group),
                group=(group, self._description(group)),
                position=position,
                operation=f"{self.backend}:{operation}",
                sizes=(tuple(size),),
                state=state,
                retired=finished,
                # no two processes make a call in the same nanosecond
                created_ns=START_NS + (position + parts.get("later_s", 0)) * SECOND + rank * 1_000,
                frames=frames,
                timeout_ms=600_000,
                **{k: v for k, v in parts.items() if k not in ("first_record", "later_s")},
            )
            mine.append(entry)

    def history(self, ranks: Iterable[int], upto: int, at: str = "", *, first: int | None = None, **parts: Any) -> None:
        """Finished collectives ``first`` (by default five before) to ``upto``."""
        ranks = list(ranks)
        for position in range(first if first is not None else max(1, upto - 5), upto + 1):
            self.call(ranks, position, at=at, **parts)

    def status(self, rank: int, enqueued: int, completed: int, group: str = "0") -> None:
        """What the group status of ``rank`` says, where its entries do not tell."""
        self._status.setdefault(rank, {})[group] = (enqueued, completed)

    def _pg_id(self, group: str) -> int:
        return list(self.groups).index(group)

    def _description(self, group: str) -> str:
        return "default_pg" if group == "0" else f"group_{group}"

    def dump(self, *ranks: int, name: str = "nccl_trace_rank_{rank}", entries: bool = True) -> None:
        """Write the dumps of ``ranks``; ``entries=False``: with the recorder off."""
        for rank in ranks:
            mine = self._entries.get(rank, [])
            status = {**_told_by(mine), **self._status.get(rank, {})}
            dump = make_dump(
                "2.13",
                list(mine) if entries else [],
                groups=self._config(rank),
                status={str(self._pg_id(g)): (e, -1, c) for g, (e, c) in status.items()},
            )
            self.files["dumps/" + name.format(rank=rank)] = pickle_like_torch(dump)

    def _config(self, rank: int) -> dict[str, tuple[str, Sequence[int]]]:
        if self.backend == "gloo":
            return {"": ("", ())}
        return {g: (self._description(g), members) for g, members in self.groups.items() if rank in members}

    # ------------------------------------------------------------------------------------- stacks, logs, the rest

    def stack(self, rank: int, at: str, library: str = "", **parts: Any) -> None:
        """What py-spy shows of ``rank``; ``library`` are the frames inside it (``function (file:line)``, ``<``)."""
        pid = parts.get("pid", PID + rank)
        state = parts.get("state", "idle")
        inner = [frame.strip() for frame in library.split(" < ")] if library else []
        own = [f"{f['name']} ({f['filename']}:{f['line']})" for f in self.frames(at)]
        threads = [f'Thread {pid} ({state}): "MainThread"', *(f"    {frame}" for frame in (*inner, *own))]
        text = f"Process {pid}: /usr/bin/python -u {PROGRAM}\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
        self.files[f"stacks/{parts.get('name', f'rank_{rank}.txt')}"] = (text + "\n".join(threads) + "\n").encode()

    def waits(self, ranks: Iterable[int], operation: str, at: str) -> None:
        """Stacks of ranks inside a collective."""
        for rank in ranks:
            self.stack(rank, at, f"{operation} ({COLLECTIVE}:3042) < wrapper (torch/distributed/c10d_logger.py:83)")

    def log(self, name: str, text: str) -> None:
        """A log as it stands in ``logs/name``."""
        self.files[f"logs/{name}"] = text.lstrip("\n").encode()

    def process(self, rank: int, **fields: Any) -> None:
        """What the manifest says of the process of ``rank``."""
        self.processes[rank] = fields

    def write(self, case: str, expected: Mapping[str, Any], *, source: bool = True, manifest: bool = True) -> None:
        """Write ``tests/cases/CASE``; without ``source`` the program is not among the inputs."""
        folder = CASES / case
        if folder.exists():
            shutil.rmtree(folder)
        for name, content in self.inputs(source=source, manifest=manifest).items():
            path = folder / "input" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")

    def inputs(self, *, source: bool = True, manifest: bool = True) -> dict[str, bytes]:
        """All files, by path."""
        files = dict(self.files)
        if source:
            files["source/train.py"] = self.program.encode()
        if manifest or source:
            files["bundle.json"] = json.dumps(self._manifest(source=source), indent=1).encode()
        return files

    def _manifest(self, *, source: bool) -> dict[str, Any]:
        plain = {"exit_code": None, "killed_by_us": True, "state": "S", "moving": False, "host": "node-a"}
        return {
            "schema": "unhang.bundle/1",
            "world_size": self.ranks,
            "backend": self.backend,
            "torch_version": "2.13.0",
            "stalled_since_s": START_NS / 1e9 + 60,
            "taken_s": START_NS / 1e9 + 90,
            "limit_s": 600.0,
            "source_root": "source" if source else None,
            "source_prefix": str(Path(PROGRAM).parent) if source else None,
            "processes": [
                {"rank": r, "local_rank": r, "pid": PID + r, **plain, **self.processes.get(r, {})}
                for r in range(self.ranks)
                if r not in self.missing
            ],
            **self.manifest,
        }


def _told_by(entries: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    """(enqueued, completed) by group, as the entries have it."""
    status: dict[str, tuple[int, int]] = {}
    for entry in entries:
        group = entry["process_group"][0]
        position = entry["p2p_seq_id"] if entry["is_p2p"] else entry["collective_seq_id"]
        enqueued, completed = status.get(group, (-1, -1))
        done = position if entry["retired"] else completed
        status[group] = (max(enqueued, position), max(completed, done))
    return status


def write_logs(case: str, logs: Mapping[str, str], expected: Mapping[str, Any]) -> None:
    """A case of which only logs are left."""
    folder = CASES / case
    if folder.exists():
        shutil.rmtree(folder)
    for name, text in logs.items():
        path = folder / "input" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip("\n"), encoding="utf-8")
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")
