"""What stack frames mean (``activities.toml``): the loader and the look-up; and how work that a rank may do alone while
the others wait is spoken of (``own_work.toml``)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from unhang.errors import KnowledgeError
from unhang.findings import Phase
from unhang.knowledge.libraries import is_library_file
from unhang.knowledge.tables import read_rows, rows_by

_FILE = "activities.toml"
_EXAMPLE_FRAME = re.compile(r"^(?P<function>.+) \((?P<file>[^()]+?)(?::(?P<line>\d+))?\)$")


@dataclass(frozen=True, slots=True)
class ActivityRow:
    """One meaning. A frame matches by ``files`` and ``functions``, a native one by the start of its name."""

    what: str
    phase: Phase
    priority: int
    example: str
    source: str
    operation: str | None = None
    """Bare operation of a collective; ``*`` = the name of the matched function."""
    files: tuple[str, ...] = ()
    functions: frozenset[str] = frozenset()
    """``*`` matches every function of the files."""
    excludes: frozenset[str] = frozenset()
    """``file:function`` pairs that do not match although both lists name them."""
    native: tuple[str, ...] = ()
    calls: frozenset[str] = frozenset()
    """Calls on the user's own line that mean this when no Python frame stands below; ``.item`` is any object's."""
    innermost: bool = False
    """Counts only while no frame of the user's own stands further in: an import that runs a whole program is none."""


@dataclass(frozen=True, slots=True)
class ActivityTable:
    """All rows, ordered for looking up."""

    rows: tuple[ActivityRow, ...]
    by_function: Mapping[str, tuple[ActivityRow, ...]]
    any_function: tuple[ActivityRow, ...]
    by_call: Mapping[str, ActivityRow]

    def of_python(self, function: str, file: str) -> ActivityRow | None:
        """Row of a Python frame; ``function`` may be qualified (``Queue.get``). None for the user's own frames."""
        bare = bare_function(function)
        named = self.by_function.get(bare, ())
        best: ActivityRow | None = None
        for row in (*named, *self.any_function):
            if (best is None or row.priority > best.priority) and _file_matches(row, bare, file):
                best = row
        return best

    def of_native(self, function: str) -> ActivityRow | None:
        """Row of a native frame by the start of its name."""
        name = function.removeprefix("virtual thunk to ").lstrip()
        best: ActivityRow | None = None
        for row in self.rows:
            if (best is None or row.priority > best.priority) and _native_matches(row, name):
                best = row
        return best

    def of_call(self, dotted: str) -> ActivityRow | None:
        """Row of a call as the user's line spells it: ``time.sleep``, ``loss.item``."""
        # `self._store.get` is a `store.get`
        exact = self.by_call.get(dotted) or self.by_call.get(dotted.removeprefix("self.").lstrip("_"))
        if exact is not None:
            return exact
        _, dot, last = dotted.rpartition(".")
        return self.by_call.get("." + last) if dot else None


def bare_function(function: str) -> str:
    """``wrap.<locals>.wrapper`` is ``wrapper``: py-spy qualifies names since Python 3.11, others do not."""
    name = function.partition(" ")[0] if function.startswith("<") else function
    return name.rpartition(".")[2] or name


def _file_matches(row: ActivityRow, function: str, path: str) -> bool:
    file = path.replace("\\", "/")
    for ending in row.files:
        if file == ending or file.endswith("/" + ending):
            return f"{ending}:{function}" not in row.excludes
    return False


def _native_matches(row: ActivityRow, name: str) -> bool:
    for start in row.native:
        if name.startswith(start):
            # A plain C name must be the whole name: `poll` is not `pollster`. C++ names and `cblas_…` go on.
            follows = name[len(start) : len(start) + 1]
            if "::" in start or start.endswith("_") or not (follows.isalnum() or follows == "_"):
                return True
    return False


@lru_cache(maxsize=65_536)
def row_of_frame(function: str, file: str, *, native: bool) -> ActivityRow | None:
    """The row of a frame; stacks of many ranks repeat their frames, so answers are kept."""
    table = activity_table()
    return table.of_native(function) if native else table.of_python(function, file)


@lru_cache(maxsize=1)
def activity_table() -> ActivityTable:
    """The checked table of ``activities.toml``; raises KnowledgeError when a row breaks its contract."""
    return build_table(read_rows(_FILE, "activity", ActivityRow))


def build_table(rows: Sequence[ActivityRow]) -> ActivityTable:
    """``rows``, each checked against its own example."""
    by_function: dict[str, list[ActivityRow]] = {}
    by_call: dict[str, ActivityRow] = {}
    for row in rows:
        for function in row.functions - {"*"}:
            by_function.setdefault(function, []).append(row)
        for call in row.calls:
            if call in by_call:
                raise KnowledgeError(f"activities.toml: the call {call} appears in two rows")
            by_call[call] = row
    table = ActivityTable(
        tuple(rows),
        {name: tuple(found) for name, found in by_function.items()},
        tuple(row for row in rows if "*" in row.functions),
        by_call,
    )
    for row in rows:
        _check(table, row)
    return table


def _check(table: ActivityTable, row: ActivityRow) -> None:
    if bool(row.files) != bool(row.functions):
        raise KnowledgeError(f"{_FILE}: {row.what}: files and functions must be given together")
    if not (row.files or row.native or row.calls):
        raise KnowledgeError(f"{_FILE}: {row.what}: it has nothing to match")
    found = match_example(table, row.example)
    if found is None or found.what != row.what:
        raise KnowledgeError(
            f"activities.toml: {row.example!r} is the example of {row.what}, but matches {found and found.what}"
        )
    for file in row.files:
        if not is_library_file(file):
            raise KnowledgeError(f"activities.toml: {file} is not the file of a library; only those may be matched")


def match_example(table: ActivityTable, example: str) -> ActivityRow | None:
    """The row that an example (a frame as py-spy prints it, or a call with ``()``) matches."""
    frame = _EXAMPLE_FRAME.match(example)
    if frame is None:
        return table.of_call(example.partition("(")[0])
    if frame["line"] is None:
        return table.of_native(frame["function"])
    return table.of_python(frame["function"], frame["file"])


@dataclass(frozen=True, slots=True)
class SingleRankWorkWords:
    """How one kind of single-rank work is spoken of (``said``), and what is known of it."""

    what: str = ""
    """Its activity (``activities.toml``)."""
    said: str = ""
    result: bool = False
    """What it makes can be kept, and loaded by the next run."""
    files: bool = False
    """Storage may hold it up."""
    asks: bool = False
    """Somebody else has to answer, who may be a rank that waits for this one."""
    means: bool = False
    """How something is done, not what: where the part of the step is known, that says more."""


def single_rank_work_words() -> Mapping[str, SingleRankWorkWords]:
    """All kinds, by the activity's ``what``."""
    return rows_by("what", "own_work.toml", "work", SingleRankWorkWords)
