"""Configuration files of training libraries: not there, with keys and values that do not exist, or at odds with the
arguments. What is known of them: ``knowledge/configuration_constraints.toml``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any, Literal

import msgspec

from unhang.check.environment.environment import Versions
from unhang.check.risks.risk import Answer, RiskRows, asked_of_a_node
from unhang.findings import Evidence, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.collectives import source_names
from unhang.knowledge.job.versions import version_numbers
from unhang.knowledge.tables import read_typed
from unhang.knowledge.words import Phrase, text_of
from unhang.program.launch.launch import ConfigFile, Configuration, Launch
from unhang.program.program_source import ProgramSource
from unhang.program.settings.configuration_files import role_of
from unhang.program.settings.job_values import JobValue, all_files, world_size_of
from unhang.program.syntax.evaluation import UNKNOWN

ROWS = RiskRows("configuration_constraints")
_WITH_ARGUMENTS = ("arguments", "trainer", "llamafactory", "")
"""Kinds of files that hold the Trainer's arguments; the command is the first."""


class _Constraint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str
    source: str
    at: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    when: Mapping[str, tuple[str, ...]] = {}
    any: tuple[str, ...] = ()
    problem: Phrase = ""
    change: Phrase = ""
    error: str = ""
    since: str = ""
    beside: str = ""
    reader: tuple[str, ...] = ()


class _Argument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    how: Literal["same", "list", "either", "product"] = "same"
    own: bool = False


class _Known(msgspec.Struct, frozen=True):
    reader: Mapping[str, tuple[str, ...]]
    own_defaults: tuple[str, ...]
    constraint: tuple[_Constraint, ...]
    argument: tuple[_Argument, ...]


@cache
def _known() -> _Known:
    return read_typed("configuration_constraints.toml", _Known)


class _Job:
    """``files``: each once, and the command's own options and arguments as two more. ``reader``: who hands the settings
    to DeepSpeed; empty where that is not known. ``made``: what calls give the Trainer's arguments, by name."""

    def __init__(self, here: NodeInspection) -> None:
        self.launch, self.program = here.found(Launch) or Launch(), here.found(ProgramSource) or ProgramSource()
        self.versions, self.world = here.found(Versions) or Versions({}), world_size_of(here)
        self.unread = [*(here.found(Configuration) or Configuration()).unread, *self.program.configuration.unread]
        told = {"options": self.launch.options, "arguments": self.launch.arguments}
        files = [*(ConfigFile("command", kind, tree) for kind, tree in told.items()), *all_files(here)]
        self.files = list({(file.path, file.kind): file for file in files}.values())
        self.texts = [self.launch.launcher, self.launch.program, *(file.text for file in self.program.files)]
        readers = [name for name, words in _known().reader.items() if self.mentions(words)]
        self.reader = "" if {"trainer", "deepspeed"} <= {*readers} else next(iter(readers), "")
        calls, classes = self.program.engine_calls, source_names("trainer_arguments")
        self.made = [one.given for one in calls if "deepspeed" in one.given or one.name.rpartition(".")[2] in classes]

    def mentions(self, words: Sequence[str]) -> bool:
        return any(word in text for word in words for text in self.texts)


def configuration_files(here: NodeInspection) -> Iterator[Answer]:
    """Files that are named and cannot be read, what they hold that does not exist, and where the arguments differ."""
    job = _Job(here)
    for one in job.unread:
        row = role_of(one.role)
        if row is None or one.because is None:
            continue
        error = row.missing if one.missing else row.broken if one.broken else ""
        if error and not (job.launch.followed.image or job.launch.followed.lost):
            name = "file-likely" if row.likely else "file"
            yield ROWS.risk(name, {"path": one.path, "reason": one.because, "error": error}, evidence=(one.evidence,))
        else:
            yield ROWS.could_not("file", one.because, path=one.path)
    kinds = {file.kind for file in job.files if not file.direct}
    for file in job.files:
        for constraint in _known().constraint:
            counts = not constraint.reader or ("deepspeed" if file.direct else job.reader) in constraint.reader
            if constraint.kind == file.kind and counts and (not constraint.beside or constraint.beside in kinds):
                yield from _together(job, file, constraint)
                yield from _unknown(job, file, constraint)
        cards = [one for one in str(file.get("gpu_ids", "all")).split(",") if one.strip() and file.kind == "accelerate"]
        if cards and "all" not in cards and (job.launch.processes or 0) > len(cards) > 1:
            values = {"path": file.path, "cards": len(cards), "count": job.launch.processes}
            shown = Evidence(Source(file.path), f"gpu_ids: {file.get('gpu_ids')}")
            yield ROWS.risk("too-few-cards", values, evidence=(shown,))
        if file.kind == "deepspeed":
            yield from _against_arguments(job, file)


def _together(job: _Job, file: ConfigFile, row: _Constraint) -> Iterator[Answer]:
    """What raises, or has no effect, beside something else."""
    told = job.launch.options if file.kind == "accelerate" else {}
    asked = {key: wanted for key, _, wanted in (key.partition("=") for key in row.any)}
    there = {key: file.get(key, told.get(key)) for key in (*row.when, *asked)}
    held = {key: "unset" if value is None else str(value).lower() for key, value in there.items()}
    found = [key for key, wanted in asked.items() if held[key] != "unset" and wanted in ("", held[key])]
    keys = found if row.any else list(row.when)
    if not keys or any(held[key] not in map(str.lower, values) for key, values in row.when.items()):
        return
    values = {"path": file.path, "error": row.error, "keys": ", ".join(keys), "since": row.since}
    said = {"says": text_of(row.problem, {}), "change": text_of(row.change, {})}
    raises = _raises(job, row)
    if raises is None:
        yield ROWS.could_not("release", ROWS.words("no-release", **values), **values)
    elif raises or not row.error:
        shown = tuple(Evidence(Source(file.path), f"{key}: {file.get(key, '-')}") for key in keys)
        yield ROWS.risk("conflict" if raises else "conflict-ignored", {**values, **said}, evidence=shown)


def _raises(job: _Job, row: _Constraint) -> bool | None:
    """Whether DeepSpeed, or another library, raises where ``row`` is broken; None where its release is not known."""
    since = version_numbers(row.since)
    return bool(row.error) if since is None else job.versions.at_least("deepspeed", since)


def _unknown(job: _Job, file: ConfigFile, row: _Constraint) -> Iterator[Answer]:
    """Keys and values that the library does not know."""
    for at in row.at:
        held = file.get(at) if at else file.tree
        table = held if row.keys and isinstance(held, Mapping) else {}
        if file.by_keys and not at and 2 * len(table.keys() & set(row.keys)) < len(table):
            table = {}  # most of its keys are those of another reader
        for key in (key for key in table if key not in row.keys):
            alike = difflib.get_close_matches(str(key), row.keys, 1) if str(key)[:1].isalpha() else ()  # "_comment"
            change = ROWS.words("write", near=alike[0]) if alike else ROWS.words("remove", key=key)
            values = {"path": file.path, "key": f"{at}.{key}".lstrip("."), "change": change, "error": row.error}
            raises = bool(_raises(job, row))
            severity = None if raises or alike else Severity.NOTE
            shown = (Evidence(Source(file.path), f"{values['key']}: {table[key]}"),)
            yield ROWS.risk("key" if raises else "key-ignored", values, severity=severity, evidence=shown)
        known = {"auto", *(value.lower() for value in row.values)}
        for word in str(held).split() if row.values and isinstance(held, str | int | float) else ():
            values = {"path": file.path, "key": at, "value": word, "error": row.error, "fits": ", ".join(row.values)}
            if word.lower() not in known and "$" not in word:
                yield ROWS.risk("value", values, evidence=(Evidence(Source(file.path), f"{at}: {held}"),))


def _against_arguments(job: _Job, file: ConfigFile) -> Iterator[Answer]:
    """The Trainer compares DeepSpeed's file with its own arguments, and raises once the model is loaded."""
    if not job.reader:
        yield ROWS.could_not("agrees", ROWS.words("no-reader"), path=file.path)
    rows = [row for row in _known().argument if job.reader == "trainer" and file.get(row.key) not in (None, "auto")]
    held = {row.key: (file.get(row.key), _worked_out(job, row)) for row in rows}
    unknown = [key for key, both in held.items() if UNKNOWN in both]
    wrong = [row for row in rows if row.key not in unknown and held[row.key][0] != held[row.key][1]]
    if wrong:
        because = [ROWS.words("trainer-raises")]
        for row in wrong:
            there, mine = map(str, held[row.key])
            names = " + ".join(f"--{name}" if name in job.launch.arguments else name for name in row.names)
            because.append(ROWS.words("differs", key=row.key, there=there, names=names, mine=mine))
        evidence = tuple(Evidence(Source(file.path), f"{row.key}: {file.get(row.key)}") for row in wrong)
        values = {"path": file.path, "keys": ", ".join(row.key for row in wrong)}
        yield ROWS.risk("mismatch", values, because=tuple(because), evidence=evidence)
    elif len(rows) > len(unknown):
        yield ROWS.fine("agrees", path=file.path)
    if unknown:
        yield ROWS.could_not("agrees", ROWS.words("not-known", keys=", ".join(unknown)), path=file.path)


def _worked_out(job: _Job, row: _Argument) -> Any:
    """What the Trainer makes of its arguments for ``row``; UNKNOWN where one of them is."""
    own = row.own and job.mentions(_known().own_defaults)
    defaults = [UNKNOWN if own or one == "unknown" else one for one in row.defaults]
    told = [_argument(job, name, default, row.how) for name, default in zip(row.names, defaults, strict=True)]
    if row.how == "either" and True in told:
        return True
    world = job.world if row.how == "product" else 1
    if UNKNOWN in told or world is None or ("unknown" in row.defaults and told[0] < 1):
        return UNKNOWN  # steps that are not above 0 are worked out from other arguments
    return told if row.how == "list" else prod(told) * world if row.how == "product" else told[0]


def _argument(job: _Job, name: str, default: Any, how: str) -> Any:
    """In the call that makes the arguments; else in the command, its files, or the program's own default."""
    told = [file.get(name) for file in job.files if file.kind in _WITH_ARGUMENTS and file.get(name) is not None]
    if job.made:
        value = job.made[0].get(name, UNKNOWN if "**" in job.made[0] else default) if len(job.made) == 1 else UNKNOWN
    elif told or name in job.program.defaults:
        value = told[0] if told else job.program.defaults[name][0]
    else:
        value = UNKNOWN if job.mentions([f" {name}: "]) else default
    one = JobValue(name, value, Evidence(Source("command"), name))
    number = one.truth if how == "either" else one.number if one.whole is None else one.whole
    return UNKNOWN if number is None else number


RISKS = asked_of_a_node("configuration", configuration_files)
