"""Target ``check``: damaged machines and programs through every check and risk, and what nodes tell each other of them."""

from __future__ import annotations

import contextlib
import io
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.mutators import mutated, odd_json
from tests.fuzz.outputs import wrong_with, wrong_with_errors
from tests.fuzz.seeds import case_seeds, files_of
from unhang.checks.all_checks import ALL_CHECKS, look_around
from unhang.checks.machine import StoredMachine
from unhang.checks.plan import Plan
from unhang.cli.check import Format, give
from unhang.diagnosis.preflight import judge
from unhang.errors import UnhangError
from unhang.facts.preflight.sent_situation import from_sent, to_sent
from unhang.facts.preflight.situation import Situation
from unhang.report.terminal import clean_streams

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MACHINES = Path(__file__).parents[1] / "machines"
COMMAND, SENT = "command.txt", "sent.json"
"""Beside the machine: what is planned, and what another node says of itself (one that has no answer is left out)."""


@dataclass(frozen=True)
class _Planned:
    machine: Mapping[str, bytes]
    words: tuple[str, ...]


@cache
def _planned() -> tuple[_Planned, ...]:
    """Every stored machine with every command that its cases plan."""
    found = []
    for folder in sorted(path for path in MACHINES.iterdir() if path.is_dir()):
        files = files_of(folder)
        told: dict[str, Any] = tomllib.loads(files.pop("expected.toml").decode())
        commands = {tuple(case.get("command", ("torchrun", "--nnodes", "2", "train.py"))) for case in told["case"]}
        found += [_Planned(files, words) for words in sorted(commands)]
    return tuple(found)


@cache
def _programs() -> tuple[bytes, ...]:
    return tuple(content for seed in case_seeds() for name, content in seed.files.items() if name.endswith(".py"))


@cache
def _sent(number: int) -> bytes:
    """What the node of one stored machine tells the others."""
    import tempfile

    from tests.fuzz.seeds import write_files

    planned = _planned()[number]
    with tempfile.TemporaryDirectory(prefix="unhang-") as folder:
        write_files(planned.machine, Path(folder))
        situation, _ = look_around(StoredMachine(Path(folder)), Plan(planned.words), ALL_CHECKS)
    return to_sent(situation).encode()


def check_input(rng: Random, number: int) -> dict[str, bytes]:
    """A machine with a program on it, damaged here and there, and what another node sends."""
    planned = _planned()[number % len(_planned())]
    files = {**planned.machine, "root/train.py": rng.choice(_programs()), COMMAND: shlex.join(planned.words).encode()}
    for name in rng.choices(sorted(set(files) - {"machine.toml"}), k=rng.choice((1, 2, 4))):
        files[name] = mutated(rng, files[name], 1).data
    if rng.random() < 0.3:
        files["machine.toml"] = mutated(rng, files["machine.toml"], 1).data
    if rng.random() < 0.5:
        other = _sent(rng.choice((number % len(_planned()), rng.randrange(len(_planned())))))
        files[SENT] = odd_json(rng, other) if rng.random() < 0.7 else other
    return files


def check(given: Mapping[str, bytes], place: Path, number: int) -> Iterator[str]:
    """What is wrong with what ``unhang check`` makes of it."""
    form, lang = ((Format.TEXT, "en"), (Format.JSON, "en"), (Format.TEXT, "zh"), (Format.JSON, "zh"))[number % 4]
    out, errors = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), clean_streams():
            machine = StoredMachine(place / "input")
            words = _words(given.get(COMMAND, b""))
            here, gaps = look_around(machine, Plan(words), ALL_CHECKS)
            situations = [here, *_others(given)]
            verdict = judge(situations, [check.name for check in ALL_CHECKS], gaps)
            give(verdict, form, lang, redact=number % 3 == 0)
    except UnhangError:
        return  # said why; nothing was promised of it
    yield from (f"failed: {gap.what}: {gap.because}" for gap in verdict.not_checked if _is_mistake(gap))
    yield from wrong_with("json" if form is Format.JSON else "text", out.getvalue())
    yield from wrong_with_errors(errors.getvalue())


def _words(line: bytes) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line.decode("utf-8", "replace")))
    except ValueError:
        return ()


def _others(given: Mapping[str, bytes]) -> list[Situation]:
    if SENT not in given:
        return []
    try:
        return [from_sent(given[SENT].decode("utf-8", "replace"))]
    except UnhangError:
        return []


def _is_mistake(gap: Any) -> bool:
    return bool(gap.failed) or "mistake of unhang" in str(gap.because)
