"""From what the user types to what is started: one command, its environment and its folder.

What stands in front of the program is taken off, one after the other; scripts of the shell are gone through.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from unhang.findings import Source
from unhang.host.inspection_result import InspectionResult
from unhang.host.machine import Machine
from unhang.knowledge.collectives import source_names
from unhang.knowledge.job.launch_commands import CommandWrapper, wrapper_of
from unhang.program.launch.command_words import ASSIGNMENT, launcher_words, parse_command, plain_name, unwrap
from unhang.program.launch.job_environment import VariableSetting, comparable_variables
from unhang.program.launch.kubernetes_manifests import follow_manifests
from unhang.program.launch.launch import FollowedLaunch, Launch, NotUnderstood
from unhang.program.launch.planned_job import PlannedJob
from unhang.program.launch.python_commands import program_words
from unhang.program.launch.shell.partly_known_text import UnknownPart, is_known
from unhang.program.launch.shell.session import MAX_DEPTH, FollowSession, StartedCommand
from unhang.program.launch.shell.state import INHERITED, OuterLauncher, ShellState, ShellVariable
from unhang.program.launch.shell.statements import read_script
from unhang.program.launch.slurm_scripts import follow_sbatch
from unhang.sentences import Text, first_names, say

SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "ash"})
_TYPED = Source("command")
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
        for start in _find_starts(session, StartedCommand(plan.command, ShellState(inherited), None))
    ]
    if not starts:
        ends = (NotUnderstood(say("started this way, the script exits here"), one) for one in session.exits[-1:])
        none = NotUnderstood(say("it starts no Python program that unhang can find"))
        return machine, replace(plan, followed=FollowedLaunch(not_understood=_fewer([*session.notes, *ends, none])))
    start, launch = max(
        starts, key=lambda one: (_weight(one[1]), _is_named_training(one[1]))
    )  # of several alike, the first
    told = _followed(session, start, _others(launch, starts))
    kept = {name: one.value for name, one in start.state.variables.items() if one.source == INHERITED}
    environment = {name: value for name, value in kept.items() if isinstance(value, str)}
    environment.update({name: setting.value for name, setting in told.environment.items()})
    words = _written(session, (*_outer(start), *_with_files(session, start)))
    job = machine.for_job(told.folder, environment)
    job.made = _made(session, start)
    return job, replace(plan, command=words, followed=told)


def _made(session: FollowSession, start: StartedCommand) -> dict[str, InspectionResult[str]]:
    """What scripts write before they come to ``start``, and what a program of theirs may write."""
    own = 0 if start.source is None else 1  # the launch itself was given its words, too
    may: InspectionResult[str] = InspectionResult(because=say("an earlier command of the script may write it"))
    made = {session.absolute(path): may for path, count in session.touched.items() if count > own}
    written = {session.absolute(path): InspectionResult(text) for path, text in session.written.items()}
    return {**made, **written}


def _written(session: FollowSession, words: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(session.parts.as_written, words))


def _weight(launch: Launch) -> int:
    """A launcher of several processes trains, rather than a program alone."""
    return _WEIGHT.get(launch.launcher, 2 if launch.outer else 1)


def _is_named_training(launch: Launch) -> bool:
    """``tool finetune_lora`` rather than ``tool download`` before it."""
    words = re.split(r"[^a-z]+", " ".join([posixpath.basename(launch.program), *launch.argv[:1]]).lower())
    return not source_names("trains").isdisjoint(words)


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
        NotUnderstood(say("how the program is started depends on a condition known only at run time"), source)
        for source in dict.fromkeys(state.conditions)
    )
    named, variables = _unknown(session, _by_name(start.words)), _unknown(session, asked)
    notes = _fewer([*session.notes, *named, *conditions, *variables, *others])
    lost, trail = not is_known(state.folder), _written(session, state.trail)
    folder = "" if lost else state.folder
    return FollowedLaunch(environment, unknown, folder, trail, start.source, state.image, notes, lost)


def _fewer(notes: Sequence[NotUnderstood]) -> tuple[NotUnderstood, ...]:
    """The first ones, and how many more there are."""
    once = list(dict.fromkeys(notes))
    more = len(once) - MAX_NOTES
    rest = [NotUnderstood(say("and {count} more that unhang did not understand", count=more))] if more > 0 else []
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
                say("it also starts {program}, which unhang did not check", program=program), other.source
            )


def _program(launch: Launch) -> str:
    return posixpath.normpath(launch.program) if launch.program.endswith(".py") else launch.program


# -- what stands in front of the program


def _find_starts(session: FollowSession, command: StartedCommand) -> list[StartedCommand]:
    """Every program of Python that ``command`` starts, as far as its scripts lead; what they start waits its turn."""
    starts, waiting = [], [command]
    while waiting:
        start = _follow(session, waiting.pop())
        if start is not None:
            starts.append(start)
        waiting += reversed(session.commands)
        session.commands.clear()
    return starts


def _follow(session: FollowSession, command: StartedCommand) -> StartedCommand | None:
    """The program that ``command`` is behind its wrappers; None where it is a script, or something else."""
    state, rest, source = command.state.copy(), list(command.words), command.source
    for _ in range(MAX_DEPTH):
        rest = _without_unset(session, _assigned(state, rest, source))
        if not rest:
            return None
        name = posixpath.basename(rest[0])
        if name in _READ_APART:
            _READ_APART[name](session, replace(command, words=tuple(rest), state=state))
            return None
        wrapper = wrapper_of(name, rest[1] if len(rest) > 1 else "")
        if wrapper is None:
            break
        rest = _unwrapped(session, state, wrapper, rest, source)
        if wrapper.joined:
            read_script(session, state, " ".join(rest), source or _TYPED)
            return None
        if wrapper.python and rest and rest[0].endswith(".py"):
            rest = ["python", *rest]
    is_launched = state.outer != command.state.outer
    return _last(session, replace(command, words=tuple(rest), state=state), is_launched=is_launched) if rest else None


def _without_unset(session: FollowSession, words: list[str]) -> list[str]:
    """``$LAUNCHER python …`` where nobody set it."""
    while words and session.parts.is_only_unset(words[0]):
        for part in session.parts.inside(words[0]) if len(words) > 1 else ():
            session.note(say("{what}: {because}", what=part.text, because=part.because), part.source)
        words = words[1:]
    return words


def _last(session: FollowSession, command: StartedCommand, *, is_launched: bool) -> StartedCommand | None:
    """What is left: a script of the shell, or the program."""
    state, (first, *rest), source = command.state, command.words, command.source
    path, name = state.place(first), posixpath.basename(first)
    text = session.read(path) if ("/" in first or first.endswith(".sh")) and not first.endswith(".py") else None
    if text is not None and is_shell(first, text):
        read_script(session, state.child(first, rest), text, Source(path))
        return None
    found = program_words(session, command, text)
    behind = rest[rest.index("--") + 1 :] if "--" in rest else []
    if _starts_training(behind) and (found is None or found[0].startswith("python")):
        _note_remote_run(session, command, behind)
    elif found is not None:
        if posixpath.basename(found[0]) != name and not name.startswith("python"):
            state.trail = (*state.trail, first)
        return replace(command, words=tuple(found))
    elif text is None and first.endswith(".sh"):
        session.note(_absent(session, path), source)
    elif is_launched:
        session.note(say("{program} is not a Python program", program=session.parts.as_written(first)), source)
    return None


def _absent(session: FollowSession, path: str) -> Text:
    if is_known(path):
        return say("{path} does not exist", path=path)
    return say("the script {path} is known only at run time", path=session.parts.as_written(path))


def _starts_training(words: list[str]) -> bool:
    """``torchrun …``, also behind wrappers and variables."""
    return any(launcher_words(words[at:6])[0] is not None for at in range(min(len(words), 6)))


def _note_remote_run(session: FollowSession, command: StartedCommand, behind: list[str]) -> None:
    """``python submit.py --gpus 8 -- torchrun train.py``: a program that has the command behind it run somewhere."""
    state, name = command.state, " ".join(command.words[: 2 if command.words[0].startswith("python") else 1])
    note = say("{name} runs the program elsewhere, and what it sets there is not known", name=name)
    session.note(note, command.source)
    state.trail, state.image = (*state.trail, name), name
    session.commands.append(StartedCommand(tuple(behind), state, command.source or _TYPED))


def is_shell(name: str, text: str) -> bool:
    """Whether a file of this name and text is a script of a shell."""
    first = text.partition("\n")[0]
    named = any(re.search(rf"\b{shell}\b", first) for shell in SHELLS)
    return named if first.startswith("#!") else name.endswith((".sh", ".bash", ".slurm", ".sbatch"))


def _assigned(state: ShellState, words: list[str], source: Source | None) -> list[str]:
    """Words before the command set variables: ``A=b torchrun …``."""
    while words and (found := ASSIGNMENT.fullmatch(words[0])):
        state.assign(found[1], found[2], source or _TYPED, export=True)
        words = words[1:]
    return words


def _follow_shell(session: FollowSession, command: StartedCommand) -> None:
    """``bash -x run.sh ARGS``, ``sh -c TEXT``, ``bash < job.sh``."""
    state, source, (shell, *rest) = command.state, command.source or _TYPED, command.words
    while rest and rest[0].startswith(("-", "+")) and not rest[0].endswith("c"):
        rest = rest[2 if rest[0] in ("-o", "-O", "--rcfile", "--init-file") else 1 :]
    if rest and rest[0].startswith("-"):
        inner = state.child("", rest[3:])
        inner.script = rest[2] if len(rest) > 2 else posixpath.basename(shell)
        read_script(session, inner, rest[1] if len(rest) > 1 else "", source)
    elif rest:
        path = state.place(rest[0])
        text = session.read(path)
        if text is None:
            session.note(_absent(session, path), command.source)
        else:
            read_script(session, state.child(rest[0], rest[1:]), text, Source(path))
    elif command.stdin is not None:
        read_script(session, state.child("", []), command.stdin, source)


def _unwrapped(
    session: FollowSession, state: ShellState, wrapper: CommandWrapper, words: list[str], source: Source | None
) -> list[str]:
    """The words behind ``wrapper``, whose options ``state`` takes in."""
    name, (options, rest) = posixpath.basename(words[0]), unwrap(wrapper, words)
    _enter_environment(session, state, words, dict(options), source or _TYPED)
    if wrapper.apart and not state.image:
        state.image = f"{wrapper.apart}: {rest[0]}" if wrapper.words and rest else wrapper.apart
    if wrapper.outer and not rest:
        return []
    folder = next((value for option, value in options if option in wrapper.folder and is_known(value)), "")
    given = [value for option, value in options if option in wrapper.sets]
    given += [one for option, value in options if option == "--export" and wrapper.outer for one in value.split(",")]
    for one in given:
        _assigned(state, [one], source)
    if wrapper.apart:
        _inside(state, folder, [value for option, value in options if option in wrapper.mount])
        state.trail = (*state.trail, " ".join([name, *rest[: wrapper.words]]))
    elif folder:
        state.folder = state.place(folder)
    if wrapper.outer:
        told = {plain_name(option): session.parts.as_written(value) for option, value in options}
        state.outer = (*state.outer, OuterLauncher(name, told))
    return rest[wrapper.words :]


def _enter_environment(
    session: FollowSession, state: ShellState, words: list[str], told: Mapping[str, str], source: Source
) -> None:
    """``conda run -n x``, ``uv run``: programs of that environment come first; uv may make its ``.venv`` later."""
    name, wanted = posixpath.basename(words[0]), told.get("-n") or told.get("--name")
    base = posixpath.dirname(posixpath.dirname(str(state.value("CONDA_EXE") or words[0])))
    place = told.get("-p") or told.get("--prefix") or (f"{base}/envs/{wanted}" if wanted else "")
    place = ".venv" if name == "uv" else place if name in ("conda", "mamba", "micromamba") else ""
    prefix = session.absolute(state.place(place))
    if place and (session.is_folder(prefix) or name != "uv"):
        state.unset("VIRTUAL_ENV")
        state.assign("PATH", f"{prefix}/bin:{state.value('PATH') or ''}", source, export=True)
        state.assign("VIRTUAL_ENV" if name == "uv" else "CONDA_PREFIX", prefix, source, export=True)


def _inside(state: ShellState, folder: str, mounts: list[str]) -> None:
    """A folder of the container that is one of ours, mounted there."""
    for mount in mounts:
        ours, _, theirs = mount.partition(":")
        theirs = theirs.partition(":")[0] or ours
        if folder and is_known(mount) and (folder == theirs or folder.startswith(theirs.rstrip("/") + "/")):
            state.folder = posixpath.normpath(state.place(ours) + "/" + folder[len(theirs) :].lstrip("/"))
            return
    state.folder = folder or state.folder


_READ_APART: dict[str, Callable[[FollowSession, StartedCommand], None]] = {
    **dict.fromkeys(SHELLS, _follow_shell),
    "sbatch": follow_sbatch,
    **dict.fromkeys(("kubectl", "oc"), follow_manifests),
}
