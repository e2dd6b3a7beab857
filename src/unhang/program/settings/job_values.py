"""One value of the planned job, wherever it stands: an argument of the command before a configuration file; and what
the job switches on, as far as its values or its own source say it (``knowledge/training_memory.toml``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from unhang.findings import Evidence, Source
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge import numbers
from unhang.knowledge.tables import read_table
from unhang.program.launch.launch import ConfigFile, Configuration, Launch
from unhang.program.program_source import ProgramSource
from unhang.program.syntax.evaluation import UNKNOWN

_TRUE, _FALSE = {"true", "yes", "1", "on"}, {"false", "no", "0", "off"}
_SWITCH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class JobValue:
    """``value`` as JSON, YAML or TOML read it; text from the command."""

    name: str
    value: Any
    evidence: Evidence

    @property
    def number(self) -> float | None:
        """The value as a number; None for ``auto`` and everything else that is none."""
        return numbers.finite_number(self.value)

    @property
    def whole(self) -> int | None:
        """The value as a whole number."""
        number = self.number
        return int(number) if number is not None and number == int(number) else None

    @property
    def truth(self) -> bool | None:
        """The value as a switch; None when it is none."""
        word = str(self.value).strip().lower()
        return True if word in _TRUE else False if word in _FALSE else None


def job_values(here: NodeInspection, *names: str, kind: str = "") -> Iterator[JobValue]:
    """Every place that sets one of ``names`` (dotted in files): the calls of the source that make the arguments, the
    command, the files; files of ``kind`` only, if given."""
    launch, made = here.found(Launch) or Launch(), {} if kind else _made(here.found(ProgramSource) or ProgramSource())
    yield from (made[name] for name in names if name in made)
    for name in names:
        if not kind and name in launch.arguments:
            text = launch.arguments[name]
            yield JobValue(name, text, Evidence(Source("command"), f"--{name} {text}"))
    for file in all_files(here, kind):
        for name in names:
            value = file.get(name)
            if value is not None:
                yield JobValue(name, value, Evidence(Source(file.path), f"{name}: {value}"))


def all_files(here: NodeInspection, kind: str = "") -> list[ConfigFile]:
    """Files of ``kind`` (all, if none is given): of the command, then of the calls in the source."""
    parts = (here.found(Configuration), (here.found(ProgramSource) or ProgramSource()).configuration)
    return [file for part in parts if part is not None for file in part.files if kind in ("", file.kind)]


def _made(program: ProgramSource) -> dict[str, JobValue]:
    """What the source itself gives the classes that hold arguments, each of which it makes once."""
    made = Counter(call.name for call in program.engine_calls)
    sole = [call for call in program.engine_calls if made[call.name] == 1]
    given = [JobValue(name, value, call.evidence) for call in sole for name, value in call.given.items()]
    times = Counter(one.name for one in given)
    return {one.name: one for one in given if times[one.name] == 1 and one.value not in (None, UNKNOWN)}


def job_value(here: NodeInspection, *names: str, kind: str = "") -> JobValue | None:
    """The first of :func:`job_values`: the one in force."""
    return next(job_values(here, *names, kind=kind), None)


def value_in_force(here: NodeInspection, name: str) -> JobValue | None:
    """What the command or a file sets, else what the program's source says holds where nobody does."""
    told, program = job_value(here, name), here.found(ProgramSource) or ProgramSource()
    if told is not None or name not in program.defaults or _is_set_below(here, name):
        return told
    value, place = program.defaults[name]
    path, _, line = place.rpartition(":")
    return JobValue(name, value, Evidence(Source(path, int(line)), f"{name}: {value}"))


def _is_set_below(here: NodeInspection, name: str) -> bool:
    """``worker.actor.name`` of the command or a file: where it counts, the default does not."""
    trees: list[object] = [dict.fromkeys((here.found(Launch) or Launch()).arguments)]
    trees += [file.tree for file in all_files(here)]
    while trees:
        tree = trees.pop()
        if isinstance(tree, Mapping):
            if any(str(key).rpartition(".")[2] == name for key in tree):
                return True
            trees.extend(tree.values())
    return False


def world_size_of(here: NodeInspection) -> int | None:
    """Processes the command would start on all nodes; None when it does not say."""
    return (here.found(Launch) or Launch()).world_size


@cache
def memory_table() -> dict[str, Any]:
    """Names of settings, features, families of models and bytes, as the file holds them."""
    return read_table("training_memory.toml")


def setting(here: NodeInspection, *names: str) -> JobValue | None:
    """The first in force: of the command and the files, the launcher (``--zero_stage``), the source's own defaults."""
    options = (here.found(Launch) or Launch()).options
    given = (JobValue(one, options[one], Evidence(Source("command"), f"--{one}")) for one in names if one in options)
    defaults = (one for name in names if (one := value_in_force(here, name)) is not None and one.value is not None)
    return job_value(here, *names) or next(given, None) or next(defaults, None)


def whole_setting(here: NodeInspection, *names: str) -> int | None:
    """The first of ``names`` that holds a whole number: ``auto`` leaves the answer to the next."""
    told = (value.whole for name in names if (value := setting(here, name)) is not None)
    return next((number for number in told if number is not None), None)


def feature(here: NodeInspection, name: str) -> bool | None:
    """Whether the job has the feature of this row; None where nothing says it."""
    row = memory_table()["feature"][name]
    for key, answer in (("unsure", None), ("off", False), ("on", True)):
        if any(_is_set(here, wanted) for wanted in row.get(key, ())):
            return answer
    silent = any(all_files(here, kind) for kind in row.get("silent", ()))
    return False if silent or mentions(here, row.get("words", ())) is False else None


def mentions(here: NodeInspection, words: Sequence[str]) -> bool | None:
    """Whether the program's own source has one of ``words``; None where it was not all read."""
    program = here.found(ProgramSource)
    if program is None:
        return None
    text = _lowered(tuple(file.text for file in program.files))
    if any(word in text for word in words):
        return True
    return None if program.partly or program.absent or program.unreadable or program.computed else False


@lru_cache(maxsize=1)
def _lowered(texts: tuple[str, ...]) -> str:
    return "\n".join(texts).lower()


def _is_set(here: NodeInspection, wanted: str) -> bool:
    """``name=value``: to it, or to words among which it is; ``name`` alone: the job sets it."""
    name, sign, value = wanted.partition("=")
    told = setting(here, name) if sign else job_value(here, name)
    if told is None or not sign:
        return told is not None
    return told.truth is _SWITCH[value] if value in _SWITCH else value in str(told.value).lower().split()
