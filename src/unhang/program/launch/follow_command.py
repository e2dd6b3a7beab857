"""From what the user types to what is started: one command, its environment and its folder."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
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
from unhang.sentences import say

MAX_NOTES, MAX_OTHERS, MAX_NAMES = 12, 3, 4
_WEIGHT = {"torchrun": 3, "accelerate": 3, "deepspeed": 3, "llamafactory": 3, "composer": 3, "tune": 3, "colossalai": 3}
_RENDEZVOUS_VARIABLES = ("MASTER_", "WORLD_SIZE", "RANK", "NODE_RANK", "PYTHONPATH", "CUDA_", "NPROC")


def follow_command(machine: Machine, plan: PlannedJob) -> tuple[Machine, PlannedJob]:
    """The machine as the job will see it (its variables, its folder), and the command that starts the program."""
    if not plan.command or plan.followed is not None:
        return machine, plan
    session = FollowSession(machine)
    inherited = {name: ShellVariable(value, INHERITED, exported=True) for name, value in machine.environment.items()}
    starts = find_starts(session, StartedCommand(plan.command, ShellState(inherited), None))
    start = choose_training_start(session, starts)
    if start is None:
        ends = (NotUnderstood(say("the script ends itself here, as it is started"), one) for one in session.exits[-1:])
        none = NotUnderstood(say("no program of Python was found that it starts"))
        return machine, replace(plan, followed=FollowedLaunch(not_understood=_fewer([*session.notes, *ends, none])))
    told = _followed(session, start, starts)
    kept = {name: one.value for name, one in start.state.variables.items() if one.source == INHERITED}
    environment = {name: value for name, value in kept.items() if isinstance(value, str)}
    environment.update({name: setting.value for name, setting in told.environment.items()})
    words = tuple(session.parts.as_written(word) for word in (*_outer(start), *_with_files(session, start)))
    return machine.for_job(told.folder, environment), replace(plan, command=words, followed=told)


def choose_training_start(session: FollowSession, starts: Sequence[StartedCommand]) -> StartedCommand | None:
    """The start that trains: a launcher of several processes before a program alone, the first of its kind."""
    return max(starts, key=lambda start: _weight(session, start), default=None)


def _weight(session: FollowSession, start: StartedCommand) -> int:
    launch = parse_command([session.parts.as_written(word) for word in (*_outer(start), *start.words)])
    return _WEIGHT.get(launch.launcher, 2 if launch.outer else 1)


def _followed(session: FollowSession, start: StartedCommand, starts: Sequence[StartedCommand]) -> FollowedLaunch:
    state = start.state
    environment, unknown = {}, {}
    for name, one in state.variables.items():
        if not one.exported or not isinstance(one.value, str) or one.source == INHERITED:
            continue
        if is_known(one.value):
            path = one.source.path
            environment[name] = VariableSetting(name, one.value, path, one.source.line)
        else:
            unknown[name] = one.source
    folder = state.folder if is_known(state.folder) else ""
    notes = [
        *session.notes,
        *_of_start(session, start),
        *_of_variables(session, start),
        *_others(session, start, starts),
    ]
    trail = tuple(session.parts.as_written(step) for step in state.trail)
    return FollowedLaunch(environment, unknown, folder, trail, start.source, state.image, _fewer(notes))


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
    options: dict[str, str] = {}
    for one in start.state.outer:
        options.update(one.options)
    kept = [f"--{name}={value}" for name, value in options.items() if " " not in name]
    return [outers[-1].name, *kept, "--"] if kept else [outers[-1].name]


def _of_start(session: FollowSession, start: StartedCommand) -> Iterator[NotUnderstood]:
    """Words of the command that only running tells, each reason once, and conditions it depends on."""
    words = start.words
    named: dict[UnknownPart, list[str]] = {}
    for at, word in enumerate(words):
        for part in session.parts.inside(word):
            name, sign, _ = word.partition("=")
            before = words[at - 1] if at and words[at - 1].startswith("-") and is_known(words[at - 1]) else ""
            named.setdefault(part, []).append(name if sign and is_known(name) else before or part.text)
    yield from _joined(named)
    for source in dict.fromkeys(start.state.conditions):
        because = say("whether the program is started as told here depends on a condition that only running tells")
        yield NotUnderstood(because, source)


def _of_variables(session: FollowSession, start: StartedCommand) -> Iterator[NotUnderstood]:
    named: dict[UnknownPart, list[str]] = {}
    for name, one in start.state.variables.items():
        told = isinstance(one.value, str) and (
            comparable_variables({name: ""}) or name.startswith(_RENDEZVOUS_VARIABLES)
        )
        if one.exported and told and isinstance(one.value, str):
            for part in session.parts.inside(one.value):
                named.setdefault(part, []).append(name)
    yield from _joined(named)


def _joined(named: Mapping[UnknownPart, Sequence[str]]) -> Iterator[NotUnderstood]:
    """``--nnodes, --node_rank $NODES: …``; the same reason is told once."""
    for part, names in named.items():
        once = list(dict.fromkeys(name for name in names if name != part.text))
        more = f" (+{len(once) - MAX_NAMES})" if len(once) > MAX_NAMES else ""
        what = " ".join([*([", ".join(once[:MAX_NAMES]) + more] if once else []), part.text])
        yield NotUnderstood(say("{what}: {because}", what=what, because=part.because), part.source)


def _others(session: FollowSession, start: StartedCommand, starts: Sequence[StartedCommand]) -> Iterator[NotUnderstood]:
    """Programs of the same kind that the scripts start as well."""
    weight = _weight(session, start)
    seen = {_program(session, start)}
    for other in starts:
        program = _program(session, other)
        if _weight(session, other) == weight and program not in seen and len(seen) <= MAX_OTHERS:
            seen.add(program)
            yield NotUnderstood(
                say("it starts {program} as well, which was not looked at", program=program), other.source
            )


def _program(session: FollowSession, start: StartedCommand) -> str:
    launch: Launch = parse_command([session.parts.as_written(word) for word in start.words])
    return posixpath.normpath(launch.program) if launch.program.endswith(".py") else launch.program
