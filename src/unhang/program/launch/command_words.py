"""Take a training command apart. Nothing is run and no file is read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from unhang.knowledge import numbers
from unhang.program.launch.launch import Launch

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_WRAPPERS = {"env", "nohup", "time", "exec", "setsid", "stdbuf", "numactl", "nice", "unhang"}
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "torch.distributed.launcher": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
# By name: the launcher, and the words that must follow.
_LAUNCHERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "accelerate": ("accelerate", ("launch",)),
    "accelerate-launch": ("accelerate", ()),
    "torchrun": ("torchrun", ()),
    "deepspeed": ("deepspeed", ()),
    "ds": ("deepspeed", ()),
    "srun": ("srun", ()),
    "mpirun": ("mpirun", ()),
    "mpiexec": ("mpirun", ()),
    "horovodrun": ("mpirun", ()),
    "llamafactory-cli": ("llamafactory", ()),
    "lmf": ("llamafactory", ()),
    "composer": ("composer", ()),
    "tune": ("tune", ("run",)),
    "colossalai": ("colossalai", ("run",)),
    "fabric": ("fabric", ("run",)),
    "lightning": ("fabric", ("run",)),
}
# Options that stand alone; every other option takes the next word.
_FLAGS = {
    "torchrun": {"standalone", "no_python", "m", "module", "run_path", "use_env", "virtual_local_rank"},
    "accelerate": {
        *("cpu", "debug", "downcast_bf16", "dynamo_use_dynamic", "dynamo_use_fullgraph", "enable_cpu_affinity"),
        *("dynamo_use_regional_compilation", "fp8_use_autocast_during_eval", "m", "module", "multi_gpu", "no_python"),
        *("no_tpu_cluster", "q", "quiet", "same_network", "tpu", "tpu_cluster", "tpu_use_sudo", "use_deepspeed"),
        *("use_fsdp", "use_megatron_lm", "use_parallelism_config"),
    },
    "deepspeed": {
        *("no_python", "module", "no_local_rank", "no_ssh", "no_ssh_check", "force_multi", "save_pid"),
        *("bind_cores_to_rank", "quiet"),
    },
    "composer": {"module_mode", "m", "verbose", "v", "command_mode", "c"},
    "tune": {"standalone", "no_python", "m", "module", "run_path"},
    "colossalai": {"m", "module"},
    "fabric": set(),
    "srun": {"overlap", "exclusive", "label", "l", "unbuffered", "u", "pty", "verbose", "v"},
    "mpirun": {"allow_run_as_root", "oversubscribe", "report_bindings", "v"},
}
_PROCESSES = ("nproc_per_node", "nproc", "num_processes", "num_gpus", "ntasks_per_node", "np", "devices", "n", "ntasks")
_NODES = ("nnodes", "num_machines", "num_nodes", "nodes", "N")
# Modules that run the script behind their own options.
_RUNNERS = {"coverage": ("run",), "cProfile": (), "pdb": (), "ipdb": (), "debugpy": (), "kernprof": (), "viztracer": ()}


def parse_command(command: Sequence[str]) -> Launch:
    """The parts of ``command``; an empty :class:`Launch` for no words."""
    words = _without_wrappers(list(command))
    if not words:
        return Launch()
    launcher, rest = _launcher(words)
    if launcher in ("srun", "mpirun"):
        outer, inner = _options(rest, _FLAGS[launcher])
        within = parse_command(inner)
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
        rest = _behind_python_options(words[1:])
        module = _MODULES.get(rest[1], "") if rest[:1] == ["-m"] and len(rest) > 1 else ""
        return (module, rest[2:]) if module else ("python", rest)
    launcher, verbs = _LAUNCHERS.get(name, ("", ()))
    if launcher and (not verbs or (words[1:2] and words[1] in verbs)):
        return launcher, words[2 if verbs else 1 :]
    return "python", words


def _behind_python_options(words: list[str]) -> list[str]:
    """``-u``, ``-X importtime``, ``-W error`` are the interpreter's own."""
    while words and words[0].startswith("-") and words[0] not in ("-m", "-c", "-"):
        words = words[2:] if words[0] in ("-X", "-W") else words[1:]
    return words


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
    if words[:1] in (["-m"], ["-c"]):
        return _behind_runner(" ".join(words[:2]), words[2:])
    return _behind_runner(words[0], words[1:]) if words else ("", [])


def _behind_runner(program: str, words: list[str]) -> tuple[str, list[str]]:
    """``coverage run --branch train.py``, ``-m cProfile -o out train.py``: what they run is the program."""
    verbs = _RUNNERS.get(program.removeprefix("-m "))
    if verbs is None or (verbs and words[:1] != list(verbs)):
        return program, words
    rest = words[len(verbs) :]
    at = next(
        (at for at, word in enumerate(rest) if word == "-m" or (not word.startswith("-") and word.endswith(".py"))),
        None,
    )
    if at is None:
        return program, words
    return (
        (f"-m {rest[at + 1]}", rest[at + 2 :])
        if rest[at] == "-m" and at + 1 < len(rest)
        else (rest[at], rest[at + 1 :])
    )


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
        elif sign and re.fullmatch(r"\+{0,2}[A-Za-z_][\w.]*", name):
            found[_name(name).lstrip("+")] = value
        else:
            loose.append(word)
    return found, loose


def _name(text: str) -> str:
    return text.replace("-", "_")


def _is_number(word: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", word) is not None


def _number(options: dict[str, str], names: Sequence[str]) -> int | None:
    counts = (numbers.integer(options.get(name, "")) for name in names)
    return next((count for count in counts if count is not None and count >= 0), None)
