"""Take a training command apart. Nothing is run and no file is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from unhang.facts.preflight.launch import Launch
from unhang.knowledge import numbers

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_WRAPPERS = {"env", "nohup", "time", "exec", "setsid", "stdbuf", "numactl", "nice", "unhang"}
_TORCHRUN_MODULES = {"torch.distributed.run", "torch.distributed.launch"}
# Options that stand alone; every other option takes the next word.
_FLAGS = {
    "torchrun": {"standalone", "no_python", "m", "module", "run_path"},
    "accelerate": {"multi_gpu", "cpu", "use_deepspeed", "use_fsdp", "module", "m", "no_python", "debug", "quiet", "q"},
    "deepspeed": {"no_python", "module", "no_local_rank", "enable_each_rank_log", "no_ssh", "no_ssh_check"},
    "srun": {"overlap", "exclusive", "label", "l", "unbuffered", "u", "pty", "verbose", "v"},
    "mpirun": {"allow_run_as_root", "oversubscribe", "report_bindings", "v"},
}
_PROCESSES = ("nproc_per_node", "num_processes", "num_gpus", "ntasks_per_node", "np", "n", "ntasks")
_NODES = ("nnodes", "num_machines", "num_nodes", "nodes", "N")


def taken_apart(command: Sequence[str]) -> Launch:
    """The parts of ``command``; an empty :class:`Launch` for no words."""
    words = _without_wrappers(list(command))
    if not words:
        return Launch()
    launcher, rest = _launcher(words)
    if launcher in ("srun", "mpirun"):
        outer, inner = _options(rest, _FLAGS[launcher])
        within = taken_apart(inner)
        processes = within.processes if within.launcher not in ("", "python") else _number(outer, _PROCESSES)
        name = launcher if within.launcher in ("", "python") else within.launcher
        nodes = _number(outer, _NODES) or within.nodes
        options = {**outer, **within.options}
        return Launch(name, options, within.program, within.arguments, within.words, processes, nodes, outer=launcher)
    options, rest = _options(rest, _FLAGS.get(launcher, set())) if launcher in _FLAGS else ({}, rest)
    program, rest = _program(launcher, rest)
    arguments, loose = _arguments(rest)
    processes, nodes = _number(options, _PROCESSES), _number(options, _NODES)
    if launcher == "accelerate" and processes is not None and nodes:
        processes = processes // nodes  # --num_processes counts all machines
    return Launch(launcher, options, program, arguments, tuple(loose), processes, nodes)


def _without_wrappers(words: list[str]) -> list[str]:
    while words:
        name = PurePosixPath(words[0]).name
        if _ASSIGNMENT.fullmatch(words[0]):
            words = words[1:]
        elif name == "unhang" and "--" in words:
            words = words[words.index("--") + 1 :]
        elif name in _WRAPPERS:
            words = words[1:]
            while words and words[0].startswith("-"):
                words = words[1:]
        else:
            return words
    return words


def _launcher(words: list[str]) -> tuple[str, list[str]]:
    name = PurePosixPath(words[0]).name
    if name.startswith("python"):
        if words[1:2] == ["-m"] and words[2:3] and words[2] in _TORCHRUN_MODULES:
            return "torchrun", words[3:]
        if words[1:2] == ["-m"] and words[2:3] == ["accelerate.commands.launch"]:
            return "accelerate", words[3:]
        return "python", words[1:]
    if name == "accelerate" and words[1:2] == ["launch"]:
        return "accelerate", words[2:]
    if name in ("torchrun", "deepspeed", "srun"):
        return name, words[1:]
    if name in ("mpirun", "mpiexec"):
        return "mpirun", words[1:]
    if name in ("llamafactory-cli", "lmf"):
        return "llamafactory", words[1:]
    return "python", words


def _options(words: list[str], flags: set[str]) -> tuple[dict[str, str], list[str]]:
    """The leading options, and what follows them."""
    found: dict[str, str] = {}
    while words and words[0].startswith("-") and words[0] != "--":
        name, sign, value = words[0].lstrip("-").partition("=")
        name, words = _name(name), words[1:]
        if sign:
            found[name] = value
        elif name in flags or not words:
            found[name] = "true"
            if name in ("m", "module"):
                return found, words
        else:
            found[name], words = words[0], words[1:]
    return found, words[1:] if words[:1] == ["--"] else words


def _program(launcher: str, words: list[str]) -> tuple[str, list[str]]:
    if launcher == "llamafactory":
        return "llamafactory-cli", words
    while launcher == "python" and words and words[0].startswith("-") and words[0] not in ("-m", "-c"):
        words = words[1:]
    if words[:1] in (["-m"], ["-c"]):
        return " ".join(words[:2]), words[2:]
    return (words[0], words[1:]) if words else ("", [])


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
            found[_name(name)] = value if sign or value else "true"
        elif sign and re.fullmatch(r"[A-Za-z_][\w.]*", name):
            found[_name(name)] = value
        else:
            loose.append(word)
    return found, loose


def _name(text: str) -> str:
    return text.replace("-", "_")


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", word) is not None


def _number(options: dict[str, str], names: Sequence[str]) -> int | None:
    counts = (numbers.whole(options.get(name, "")) for name in names)
    return next((count for count in counts if count is not None and count >= 0), None)
