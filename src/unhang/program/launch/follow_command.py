"""From what the user types to what is started: one command, its environment and its folder."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from unhang.host.machine import Machine
from unhang.program.launch.command_words import parse_command
from unhang.program.launch.command_wrappers import find_starts
from unhang.program.launch.job_environment import VariableSetting, comparable_variables
from unhang.program.launch.launch import FollowedLaunch, Launch, NotUnderstood
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.launch.shell.partly_known_text import UnknownPart, is_known
from unhang.program.launch.shell.session import FollowSession, StartedCommand
from unhang.program.launch.shell.state import INHERITED, ShellState, ShellVariable
from unhang.sentences import first_names, say

MAX_NOTES, MAX_OTHERS, MAX_NAMES = 12, 3, 4
_WEIGHT = {"torchrun": 3, "accelerate": 3, "deepspeed": 3, "llamafactory": 3, "composer": 3, "tune": 3, "colossalai": 3}
_RENDEZVOUS = ("MASTER_", "WORLD_SIZE", "RANK", "NODE_RANK", "PYTHONPATH", "CUDA_", "NPROC")


def follow_command(machine: Machine, plan: PlannedJob) -> tuple[Machine, PlannedJob]:
    """The machine as the job will see it (its variables, its folder), and the command that starts the program."""
    if not plan.command or plan.followed is not None:
        return machine, plan
    session = FollowSession(machine)
    inherited = {name: ShellVariable(value, INHERITED, exported=True) for name, value in machine.environment.items()}
    starts = [
        (start, parse_command(_written(session, (*_outer(start), *start.words))))
        for start in find_starts(session, StartedCommand(plan.command, ShellState(inherited), None))
    ]
    if not starts:
        ends = (NotUnderstood(say("the script ends itself here, as it is started"), one) for one in session.exits[-1:])
        none = NotUnderstood(say("no program of Python was found that it starts"))
        return machine, replace(plan, followed=FollowedLaunch(not_understood=_fewer([*session.notes, *ends, none])))
    start, launch = max(starts, key=lambda one: _weight(one[1]))  # of several alike, the first
    told = _followed(session, start, _others(launch, starts))
    kept = {name: one.value for name, one in start.state.variables.items() if one.source == INHERITED}
    environment = {name: value for name, value in kept.items() if isinstance(value, str)}
    environment.update({name: setting.value for name, setting in told.environment.items()})
    words = _written(session, (*_outer(start), *_with_files(session, start)))
    return machine.for_job(told.folder, environment), replace(plan, command=words, followed=told)


def _written(session: FollowSession, words: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(session.parts.as_written, words))


def _weight(launch: Launch) -> int:
    """A launcher of several processes trains, rather than a program alone."""
    return _WEIGHT.get(launch.launcher, 2 if launch.outer else 1)


def _followed(session: FollowSession, start: StartedCommand, others: Iterable[NotUnderstood]) -> FollowedLaunch:
    state = start.state
    environment, unknown = {}, {}
    set_here = {name: one for name, one in state.variables.items() if one.exported and one.source != INHERITED}
    values = {name: one.value for name, one in set_here.items() if isinstance(one.value, str)}
    for name, value in values.items():
        source = set_here[name].source
        if is_known(value):
            environment[name] = VariableSetting(name, value, source.path, source.line)
        else:
            unknown[name] = source
    asked = [one for one in values.items() if comparable_variables({one[0]: ""}) or one[0].startswith(_RENDEZVOUS)]
    conditions = (
        NotUnderstood(
            say("whether the program is started as told here depends on a condition that only running tells"), source
        )
        for source in dict.fromkeys(state.conditions)
    )
    named, variables = _unknown(session, _by_name(start.words)), _unknown(session, asked)
    notes = _fewer([*session.notes, *named, *conditions, *variables, *others])
    folder = state.folder if is_known(state.folder) else ""
    return FollowedLaunch(
        environment, unknown, folder, _written(session, state.trail), start.source, state.image, notes
    )


def _fewer(notes: Sequence[NotUnderstood]) -> tuple[NotUnderstood, ...]:
    """The first ones, and how many more there are."""
    once = list(dict.fromkeys(notes))
    more = len(once) - MAX_NOTES
    rest = [NotUnderstood(say("and {count} more that were not understood", count=more))] if more > 0 else []
    return (*once[:MAX_NOTES], *rest)


def _with_files(session: FollowSession, start: StartedCommand) -> Iterator[str]:
    """``@args.txt`` as the arguments that stand in the file, as ``argparse`` reads it; a line may hold several."""
    for at, word in enumerate(start.words):
        text = session.read(start.state.place(word[1:])) if at and word.startswith("@") and len(word) > 1 else None
        if text is None:
            yield word
            continue
        for line in text.splitlines():
            yield from line.split() if line.startswith("-") else [line] if line else []


def _outer(start: StartedCommand) -> list[str]:
    """``srun`` or ``mpirun`` with its options; those of ``sbatch`` count below it."""
    outers = [one for one in start.state.outer if one.name not in ("sbatch", "salloc")]
    if not outers:
        return []
    options = {name: value for one in start.state.outer for name, value in one.options.items()}
    kept = [f"--{name}={value}" for name, value in options.items() if " " not in name]
    return [outers[-1].name, *kept, "--"] if kept else [outers[-1].name]


def _by_name(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Words of the command, by the option they belong to; without a name where there is none."""
    for before, word in zip(("", *words), words, strict=False):
        name, sign, _ = word.partition("=")
        option = before if before.startswith("-") and is_known(before) else ""
        yield name if sign and is_known(name) else option, word


def _unknown(session: FollowSession, texts: Iterable[tuple[str, str]]) -> Iterator[NotUnderstood]:
    """``--nnodes, --node_rank $NODES: …``: what only running tells of ``texts``; the same reason is told once."""
    named: dict[UnknownPart, list[str]] = {}
    for name, text in texts:
        for part in session.parts.inside(text):
            named.setdefault(part, []).append(name)
    for part, names in named.items():
        once = list(dict.fromkeys(name for name in names if name not in ("", part.text)))
        what = " ".join([*([first_names(once, MAX_NAMES)] if once else []), part.text])
        yield NotUnderstood(say("{what}: {because}", what=what, because=part.because), part.source)


def _others(launch: Launch, starts: Sequence[tuple[StartedCommand, Launch]]) -> Iterator[NotUnderstood]:
    """Programs of the same kind that the scripts start as well."""
    seen = {_program(launch)}
    for other, of_other in starts:
        program = _program(of_other)
        if _weight(of_other) == _weight(launch) and program not in seen and len(seen) <= MAX_OTHERS:
            seen.add(program)
            yield NotUnderstood(
                say("it starts {program} as well, which was not looked at", program=program), other.source
            )


def _program(launch: Launch) -> str:
    return posixpath.normpath(launch.program) if launch.program.endswith(".py") else launch.program
