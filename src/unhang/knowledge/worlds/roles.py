"""What programs do in a job of several worlds (``roles.toml``, ``logs.toml``): train, generate, score, drive."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import PurePosixPath
from typing import Literal

from unhang.knowledge.tables import rows_by
from unhang.late_pattern import late_pattern

Role = Literal["trainer", "critic", "reference", "reward", "rollout", "server", "driver", "data", "environment"]
_SPOKEN = {
    "rollout": "rollout engine",
    "server": "serving engine",
    "reference": "reference model",
    "data": "data loader",
}
_NUMBERS = late_pattern(r"(?:[_ ]?(?:ATTN_|MOE_)?[PD]?(?:DP|PP|TP|EP|CP)\d+|[_:-]\d+|\[rank=\d+\])+$")
_METHOD = late_pattern(r"\.[\w.]+$")
_WORDS = late_pattern(r"[_.\-/! ]+")
_SCHEDULER = "scheduler"
"""Whose prefix is its place alone: SGLang's."""


@dataclass(frozen=True, slots=True)
class ProgramRow:
    """Programs called ``names`` (as prefixes and process titles have them; ``*``: any ending), or logs with one of
    ``words`` in their path; what ``framework`` calls them."""

    role: Role
    called: str
    framework: str = ""
    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    hybrid: bool = False
    """It trains and generates in turns."""


def world_of(role: Role) -> Role:
    """The world of a program in a job of several: an engine that serves beside trainers generates for them."""
    return "rollout" if role == "server" else role


def spoken_role(role: str) -> str:
    """The role as a word of a sentence, which the catalogues know."""
    return _SPOKEN.get(role, role)


@cache
def _by_name() -> tuple[Mapping[str, ProgramRow], tuple[tuple[str, ProgramRow], ...]]:
    """Whole names, and beginnings, the longest first."""
    named = rows_by("names", "worlds/roles.toml", "program", ProgramRow)
    begun = sorted(
        ((name[:-1], row) for name, row in named.items() if name.endswith("*")), key=lambda one: -len(one[0])
    )
    return named, tuple(begun)


@lru_cache(maxsize=4096)
def program_row(name: str) -> ProgramRow | None:
    """Of the program that a prefix or a title calls ``name`` (``Worker_DP1_TP0``, ``ray::LLMRayActor``), if known."""
    named, begun = _by_name()
    whole = name if name.startswith("ServeReplica:") else name.rpartition("::")[2]
    base = _NUMBERS.sub("", whole.strip()) or _SCHEDULER
    for told in dict.fromkeys((whole, base, _METHOD.sub("", base))):
        row = named.get(told) or next((row for begin, row in begun if told.startswith(begin)), None)
        if row is not None:
            return row
    return None


@lru_cache(maxsize=4096)
def row_of_log(path: str) -> ProgramRow | None:
    """What wrote the log at ``path``, by the names of the log and its folder; None where no word, or several, tell."""
    told = PurePosixPath(path.replace("!", "/"))
    for part in (told.name, told.parent.name):
        spoken = f"_{'_'.join(_WORDS.split(part.casefold()))}_"
        named = rows_by("words", "worlds/logs.toml", "file", ProgramRow)
        rows = {row.role: row for word, row in named.items() if f"_{word.casefold()}_" in spoken}
        if rows:
            return next(iter(rows.values())) if len(rows) == 1 else None
    return None
