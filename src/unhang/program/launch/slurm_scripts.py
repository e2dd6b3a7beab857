"""``sbatch job.sh``: the options in its ``#SBATCH`` lines, and what Slurm then sets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from unhang.findings import Source
from unhang.knowledge import numbers
from unhang.program.launch.shell.partly_known_text import is_known
from unhang.program.launch.shell.session import FollowSession, StartedCommand
from unhang.program.launch.shell.state import OuterLauncher, ShellState
from unhang.program.launch.shell.statements import read_script, read_text
from unhang.sentences import say

_LINE = re.compile(r"#SBATCH\s+(.*)")
_SHORT = {"N": "nodes", "n": "ntasks", "c": "cpus-per-task", "G": "gpus", "D": "chdir", "t": "time", "J": "job-name"}
_FLAGS = frozenset(
    ("exclusive", "requeue", "no-requeue", "hold", "wait", "parsable", "contiguous", "overcommit", "oversubscribe")
)


def follow_sbatch(session: FollowSession, command: StartedCommand) -> None:
    """Follow ``command``, which begins with ``sbatch``."""
    state, source = command.state, command.source
    options, rest = _options(list(command.words[1:]))
    if "wrap" in options:
        _as_job(state, {}, options)
        read_text(session, state, options["wrap"], source)
        return
    text = session.read(state.place(rest[0])) if rest and is_known(rest[0]) else command.stdin
    name = rest[0] if rest else ""
    if text is None:
        session.note(say("{path} is not there", path=session.parts.as_written(state.place(name))), source)
        return
    child = state.child(name, rest[1:])
    child.trail = (*state.trail, f"sbatch {name}".strip())
    _as_job(child, sbatch_options(text), options)
    read_script(session, child, state.place(name) if name else "sbatch", text)


def sbatch_options(text: str) -> dict[str, str]:
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


def _options(words: list[str]) -> tuple[dict[str, str], list[str]]:
    found: dict[str, str] = {}
    while words and words[0].startswith("-"):
        word, words = words[0], words[1:]
        name, sign, value = word.lstrip("-").partition("=")
        if not word.startswith("--"):
            name, value, sign = _SHORT.get(word[1:2], word[1:2]), word[2:].lstrip("="), word[2:]
        if not sign and name not in _FLAGS and words:
            value, words = words[0], words[1:]
        found[name] = value
    return found, words


def _as_job(state: ShellState, lines: Mapping[str, str], typed: Mapping[str, str]) -> None:
    options = {**lines, **typed}
    state.outer = (
        *state.outer,
        OuterLauncher("sbatch", {name.replace("-", "_"): value for name, value in options.items()}),
    )
    if options.get("chdir"):
        state.folder = state.place(options["chdir"])
    source = Source(state.script or "sbatch")
    nodes = numbers.integer(options.get("nodes", "1").partition("-")[0])
    tasks = numbers.integer(options.get("ntasks-per-node", ""))
    gpus = gpus_per_node(options)
    told = {
        "SLURM_NNODES": nodes,
        "SLURM_JOB_NUM_NODES": nodes,
        "SLURM_NTASKS_PER_NODE": tasks,
        "SLURM_NTASKS": numbers.integer(options.get("ntasks", "")) or (tasks * nodes if tasks and nodes else None),
        "SLURM_CPUS_PER_TASK": numbers.integer(options.get("cpus-per-task", "")),
        "SLURM_GPUS_ON_NODE": gpus,
        "SLURM_GPUS_PER_NODE": gpus if "gpus-per-node" in options else None,
    }
    for name, number in told.items():
        if number is not None:
            state.assign(name, str(number), source, export=True)
    state.assign("SLURM_SUBMIT_DIR", state.folder or ".", source, export=True)
    for one in options.get("export", "").split(","):
        name, sign, value = one.partition("=")
        if sign:
            state.assign(name, value, source, export=True)


def gpus_per_node(options: Mapping[str, str]) -> int | None:
    """Cards of a node that the job asks for."""
    for name in ("gpus-per-node", "gres"):
        found = re.search(r"(?:^|gpu:)(?:[\w.-]+:)?(\d+)$", options.get(name, "").partition(",")[0])
        if found:
            return int(found[1])
    return None
