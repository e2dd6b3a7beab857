"""Take a training command apart. Nothing is run and no file is read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from unhang.knowledge import numbers
from unhang.knowledge.job.launch_commands import (
    CommandWrapper,
    LauncherCommand,
    launcher_of,
    launcher_of_module,
    wrapper_of,
)
from unhang.program.launch.launch import Launch

Options = list[tuple[str, str]]
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_PROCESSES = ("nproc_per_node", "nproc", "num_processes", "num_gpus", "ntasks_per_node", "np", "devices", "n", "ntasks")
_NODES = ("nnodes", "num_machines", "num_nodes", "nodes", "N")
# Modules that run the script behind their own options.
_RUNNERS = {"coverage": ("run",), "cProfile": (), "pdb": (), "ipdb": (), "debugpy": (), "kernprof": (), "viztracer": ()}


def parse_command(command: Sequence[str]) -> Launch:
    """The parts of ``command``; an empty :class:`Launch` for no words."""
    words = list(command)
    while words:
        wrapper = wrapper_of(_command_name(words), words[1] if len(words) > 1 else "")
        if ASSIGNMENT.fullmatch(words[0]):
            words = words[1:]
        elif wrapper is None or wrapper.apart:
            return _launched(words)
        else:
            options, rest = unwrap(wrapper, words)
            if wrapper.outer:
                return _below(wrapper, named_options(options), parse_command(rest))
            words = rest[wrapper.words :]
    return Launch()


def _below(wrapper: CommandWrapper, options: Mapping[str, str], within: Launch) -> Launch:
    """``within``, started by ``srun`` or ``mpirun``, whose processes are the ranks where no other launcher stands."""
    name = wrapper.names[0]
    is_launcher = within.launcher in ("", "python")
    processes = _number(options, _PROCESSES) if is_launcher else within.processes
    nodes = _number(options, _NODES) or within.nodes
    launcher = name if is_launcher else within.launcher
    both = {**options, **within.options}
    return replace(within, launcher=launcher, options=both, processes=processes, nodes=nodes, outer=name)


def _launched(words: list[str]) -> Launch:
    row, rest = launcher_words(words)
    if row is None:
        launcher, options = "python", {}
    else:
        found, rest = read_options(row, rest)
        launcher, options = row.launcher, named_options(found)
    if row is None and _command_name(words) in ("llamafactory-cli", "lmf"):
        launcher, program, rest = "llamafactory", "llamafactory-cli", words[1:]
    else:
        program, rest = _program(rest)
    arguments, loose = _arguments(rest)
    processes, nodes = _number(options, _PROCESSES), _number(options, _NODES)
    if launcher == "accelerate" and processes is not None and nodes:
        processes = processes // nodes  # --num_processes counts all machines
    return Launch(launcher, options, program, arguments, tuple(loose), tuple(rest), processes, nodes)


def launcher_words(words: Sequence[str]) -> tuple[LauncherCommand | None, list[str]]:
    """The launcher that ``words`` name, and the words behind its name; None: what Python starts, or a program."""
    rest = list(words[1:])
    if _command_name(words).startswith("python"):
        rest = behind_python_options(rest)
        row = launcher_of_module(rest[1]) if rest[:1] == ["-m"] and len(rest) > 1 else None
        return row, rest[2:] if row is not None else rest
    for count in (2, 1):
        row = launcher_of(" ".join([_command_name(words), *words[1:count]]))
        if row is not None:
            return row, list(words[count:])
    return None, list(words)


def read_options(row: CommandWrapper | LauncherCommand, words: Sequence[str]) -> tuple[Options, list[str]]:
    """The leading options of ``words`` with their values (``true``: it stands alone), and what follows them."""
    found: Options = []
    rest = list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word, *rest = rest
        if word == "--":
            break
        name, sign, value = word.partition("=")
        if sign and (name.startswith("--") or isinstance(row, LauncherCommand)):
            found.append((name, value))
        elif isinstance(row, CommandWrapper) and word not in row.takes and row.takes_glued(word):
            found.append((word[:2], word[2:].removeprefix("=")))
        else:
            count = row.values(word)
            found.append((word, " ".join(rest[:count]) or "true"))
            rest = rest[count:]
    return found, rest


def launcher_options(launcher: str, command: Sequence[str]) -> dict[str, str] | None:
    """Options between the launcher's word, wherever it stands, and the program; None where ``command`` has none."""
    for at, word in enumerate(command):
        row, behind = launcher_words(["python", *command[at:]] if word == "-m" else command[at:])
        if row is not None and row.launcher == launcher:
            return named_options(read_options(row, behind)[0])
    return None


def unwrap(row: CommandWrapper, words: Sequence[str]) -> tuple[Options, list[str]]:
    """The options of the wrapper that ``words`` begin with, and its own further words and the command behind them."""
    _, *rest = words
    if row.ends:
        return [], rest[rest.index(row.ends) + 1 :] if row.ends in rest else []
    return read_options(row, rest[1:] if rest[:1] and rest[0] in row.verbs else rest)


def plain_name(option: str) -> str:
    """``--nproc-per-node`` as ``nproc_per_node``."""
    return option.lstrip("-").replace("-", "_")


def behind_python_options(words: list[str]) -> list[str]:
    """``-u``, ``-X importtime``, ``-W error`` are the interpreter's own."""
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c", "-"):
        words = words[2:] if words[0] in ("-X", "-W") else words[1:]
    return words


def _command_name(words: Sequence[str]) -> str:
    return PurePosixPath(words[0]).name


def named_options(options: Options) -> dict[str, str]:
    """Values by :func:`plain_name`; the last one counts."""
    return {plain_name(name): value for name, value in options}


def _program(words: list[str]) -> tuple[str, list[str]]:
    """``coverage run --branch train.py``, ``-m cProfile -o out train.py``: what they run is the program."""
    if not words:
        return "", []
    count = 2 if words[0] in ("-m", "-c") else 1
    program, rest = " ".join(words[:count]), words[count:]
    verbs = _RUNNERS.get(program.removeprefix("-m "))
    if verbs is None or (verbs and rest[:1] != list(verbs)):
        return program, rest
    for at, word in enumerate(rest[len(verbs) :], len(verbs)):
        if word == "-m" and at + 1 < len(rest):
            return f"-m {rest[at + 1]}", rest[at + 2 :]
        if not word.startswith("-") and word.endswith(".py"):
            return word, rest[at + 1 :]
    return program, rest


def _arguments(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Named arguments (``--lr 1e-4``, ``--lr=1e-4``, ``lr=1e-4``, ``--bf16``) and the words that have no name."""
    found: dict[str, str] = {}
    loose: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        name, sign, value = word.lstrip("-").partition("=")
        if word.startswith("-") and not _is_number(word):
            if not sign and at < len(words) and (not words[at].startswith("-") or _is_number(words[at])):
                value, at = words[at], at + 1
            found[plain_name(name)] = value if sign or value else "true"
        elif sign and re.fullmatch(r"\+{0,2}[A-Za-z_][\w.]*", name):
            found[plain_name(name).lstrip("+")] = value
        else:
            loose.append(word)
    return found, loose


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", word) is not None


def _number(options: Mapping[str, str], names: Sequence[str]) -> int | None:
    counts = (numbers.integer(options.get(name, "")) for name in names)
    return next((count for count in counts if count is not None and count >= 0), None)
