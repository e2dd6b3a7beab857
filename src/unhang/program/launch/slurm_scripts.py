"""``sbatch job.sh``: the options in its ``#SBATCH`` lines, and what Slurm then sets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from unhang.findings import Source
from unhang.knowledge import numbers
from unhang.knowledge.job.launch_commands import wrapper_of
from unhang.program.launch.command_words import plain_name, read_options
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.session import FollowSession, StartedCommand
from unhang.program.launch.shell.state import OuterLauncher, ShellState
from unhang.program.launch.shell.statements import read_script
from unhang.sentences import say

_LINE = re.compile(r"#SBATCH\s+(.*)")
_SHORT = {"N": "nodes", "n": "ntasks", "c": "cpus_per_task", "G": "gpus", "D": "chdir", "t": "time", "J": "job_name"}


def follow_sbatch(session: FollowSession, command: StartedCommand) -> None:
    """Follow ``command``, which begins with ``sbatch``."""
    state, source = command.state, command.source
    options, rest = _options(command.words[1:])
    if "wrap" in options:
        _as_job(state, {}, options)
        read_script(session, state, options["wrap"], source or Source("command"))
        return
    text = session.read(state.place(rest[0])) if rest and is_known(rest[0]) else command.stdin
    name = rest[0] if rest else ""
    if text is None:
        session.note(say("{path} does not exist", path=session.parts.as_written(state.place(name))), source)
        return
    child = state.child(name, rest[1:])
    child.trail = (*state.trail, f"sbatch {name}".strip())
    _as_job(child, _sbatch_options(text), options)
    read_script(session, child, text, Source(state.place(name) if name else "sbatch"))


def _sbatch_options(text: str) -> dict[str, str]:
    """Options of the ``#SBATCH`` lines, which end at the first command."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        told = _LINE.match(line)
        if told:
            try:
                words = shlex.split(told[1], comments=True)
            except ValueError:
                words = told[1].split()
            found.update(_options(words)[0])
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return found


def _options(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """By their long names."""
    row = wrapper_of("sbatch", "")
    assert row is not None
    found, rest = read_options(row, words)
    named = ((plain_name(name), value) for name, value in found)
    return {_SHORT.get(name, name): value for name, value in named}, rest


def _as_job(state: ShellState, lines: Mapping[str, str], typed: Mapping[str, str]) -> None:
    options = {**lines, **typed}
    state.outer = (*state.outer, OuterLauncher("sbatch", options))
    if options.get("chdir"):
        state.folder = state.place(options["chdir"])
    source = Source(state.script or "sbatch")
    nodes = numbers.integer(options.get("nodes", "1").partition("-")[0])
    tasks = numbers.integer(options.get("ntasks_per_node", ""))
    gpus = _gpus_per_node(options)
    told = {
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_NTASKS_PER_NODE": tasks,
        "SLURM_NTASKS": numbers.integer(options.get("ntasks", "")) or (tasks * nodes if tasks and nodes else None),
        "SLURM_CPUS_PER_TASK": numbers.integer(options.get("cpus_per_task", "")),
        "SLURM_GPUS_ON_NODE": gpus,
        "SLURM_GPUS_PER_NODE": gpus if "gpus_per_node" in options else None,
    }
    for name, number in told.items():
        if number is not None:
            state.assign(name, str(number), source, export=True)
    if options.get("time"):
        state.assign("SBATCH_TIMELIMIT", options["time"], source, export=True)
    state.assign("SLURM_SUBMIT_DIR", state.folder or ".", source, export=True)
    for one in options.get("export", "").split(","):
        name, sign, value = one.partition("=")
        if sign:
            state.assign(name, value, source, export=True)


def _gpus_per_node(options: Mapping[str, str]) -> int | None:
    """Cards of a node that the job asks for."""
    for name in ("gpus_per_node", "gres"):
        found = re.search(r"(?:^|gpu:)(?:[\w.-]+:)?(\d+)$", options.get(name, "").partition(",")[0])
        if found:
            return int(found[1])
    return None
