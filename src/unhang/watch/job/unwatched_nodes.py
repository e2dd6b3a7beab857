"""Ranks that a command starts on other nodes, where nothing of ours is: which nodes, and what to type instead.

``unhang run -- srun …`` watches the ranks on the node it runs on. What it sets for them means nothing elsewhere, and no
launcher carries a watcher along. So a line says it, once, with the command that watches all of them.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from unhang.sentences import Text, say

HOSTS_SHOWN = 3
MAX_NODES = 65_536
_MAX_BYTES = 1 << 20
_DEEPSPEED_HOSTS = Path("/job/hostfile")
# Options whose value is a word of its own.
_SRUN_LETTERS = "AbcdDeiJLMmnNopqrStTWwxCG"
_SRUN_FLAGS = {"hold", "no-kill", "label", "multi-prog", "overcommit", "overlap", "pty", "quit-on-interrupt", "quiet"}
_SRUN_FLAGS |= {"reboot", "oversubscribe", "spread-job", "unbuffered", "use-min-nodes", "verbose", "disable-status"}
_SRUN_FLAGS |= {"contiguous", "no-allocate", "exact", "exclusive", "resv-ports", "preserve-env", "container", "nice"}
_SRUN_FLAGS |= {"kill-on-bad-exit", "immediate", "compress", "propagate", "send-libs"}
_MPI_FLAGS = {"allow-run-as-root", "oversubscribe", "bynode", "byslot", "tag-output", "v", "verbose", "q", "quiet"}
_MPI_FLAGS |= {
    "nooversubscribe",
    "timestamp-output",
    "report-bindings",
    "bind-to-core",
    "nolocal",
    "pernode",
    "display",
}
_MPI_FLAGS |= {
    "display-map",
    "display-allocation",
    "get-stack-traces",
    "do-not-launch",
    "enable-recovery",
    "use-hwthread-cpus",
}
_MPI_TWO_VALUE_OPTIONS = {"mca", "gmca", "pmca", "prtemca", "omca", "genv", "env"}
_DEEPSPEED_FLAGS = {
    "module",
    "no_python",
    "no_local_rank",
    "no_ssh",
    "no_ssh_check",
    "force_multi",
    "save_pid",
    "quiet",
}
_DEEPSPEED_FLAGS |= {"bind_cores_to_rank"}


@dataclass(frozen=True, slots=True)
class UnwatchedNodes:
    """``hosts``: nodes with ranks that are not watched, in the launcher's order; empty where it has yet to choose them.

    ``instead``: what to type; ``on_each``: on every node, not once.
    """

    hosts: tuple[str, ...]
    instead: str
    on_each: bool = False

    def line(self) -> Text:
        """The line for the terminal: which hosts are not watched."""
        more = len(self.hosts) - HOSTS_SHOWN
        hosts = ", ".join(self.hosts[:HOSTS_SHOWN]) + (f", … (+{more})" if more > 0 else "")
        if not hosts:
            return say("ranks on other nodes are not watched; start unhang there: {command}", command=self.instead)
        if self.on_each:
            return say(
                "ranks on {hosts} are not watched; start unhang on every node: {command}",
                hosts=hosts,
                command=self.instead,
            )
        return say("ranks on {hosts} are not watched; start unhang there: {command}", hosts=hosts, command=self.instead)


def find_unwatched_nodes(
    command: Sequence[str], environment: Mapping[str, str], *, here: str = "", cwd: Path | None = None
) -> UnwatchedNodes | None:
    """What ``command`` starts where we are not; None where it starts nothing there, or starts us there.

    ``here``: this node's name. Reads host files and nothing else; what it does not understand it does not judge.
    """
    if not command or any(PurePath(word).name == "unhang" for word in command):
        return None
    launcher = _LAUNCHERS.get(PurePath(command[0]).name)
    if launcher is None:
        return None
    try:
        return launcher(command, environment, here or socket.gethostname(), cwd or Path())
    except (OSError, ValueError):
        return None


def _srun(command: Sequence[str], environment: Mapping[str, str], here: str, _: Path) -> UnwatchedNodes | None:
    options, program = _split(command[1:], _srun_values)
    named = options.get("w") or options.get("nodelist") or ""
    hosts = expand_host_list(named) or expand_host_list(environment.get("SLURM_JOB_NODELIST", ""))
    count = _upper_bound(options.get("N") or options.get("nodes") or "")
    if not named and 0 < count < len(hosts):
        hosts = hosts[:count]
    others = [host for host in hosts if not same_host(host, here)]
    return _unwatched(others, _with_unhang_run(command, program)) if others or (not hosts and count > 1) else None


def _srun_values(word: str) -> int:
    if word.startswith("--"):
        return 0 if "=" in word or word[2:] in _SRUN_FLAGS else 1
    return 1 if len(word) == 2 and word[1] in _SRUN_LETTERS else 0


def _mpirun(command: Sequence[str], environment: Mapping[str, str], here: str, cwd: Path) -> UnwatchedNodes | None:
    options, program = _split(command[1:], _mpi_values)
    named = next((options[name] for name in ("H", "host", "hosts") if name in options), "")
    file = next((options[name] for name in ("hostfile", "machinefile", "f", "default-hostfile") if name in options), "")
    if named:
        hosts = [word.partition(":")[0] for word in named.split(",")]
    elif file:
        hosts = read_host_file(cwd / file)
    else:
        hosts = expand_host_list(environment.get("SLURM_JOB_NODELIST", ""))
    others = [host for host in dict.fromkeys(hosts) if host and not same_host(host, here)]
    return _unwatched(others, _with_unhang_run(command, program)) if others else None


def _mpi_values(word: str) -> int:
    name = word.lstrip("-")
    if name in _MPI_TWO_VALUE_OPTIONS:
        return 2
    return 0 if "=" in word or name in _MPI_FLAGS else 1


def _deepspeed(command: Sequence[str], _: Mapping[str, str], here: str, cwd: Path) -> UnwatchedNodes | None:
    options, _program = _split(
        command[1:], lambda word: 0 if "=" in word or word.lstrip("-") in _DEEPSPEED_FLAGS else 1
    )
    if "no_ssh" in options:
        return None
    file = options.get("hostfile") or options.get("H") or str(_DEEPSPEED_HOSTS)
    hosts = read_host_file(cwd / file)
    chosen = options.get("include") or options.get("i") or ""
    if chosen:
        hosts = [part.partition(":")[0].strip() for part in chosen.split("@")]
    out = [part.strip() for part in (options.get("exclude") or options.get("e") or "").split("@") if ":" not in part]
    hosts = [host for host in hosts if host not in out]
    nodes = _upper_bound(options.get("num_nodes", ""))
    hosts = hosts[: nodes or len(hosts)]
    if len(hosts) < 2 and "force_multi" not in options:
        return None
    address = options.get("master_addr") or hosts[0]
    own = ["--no_ssh", "--node_rank=N", *([] if "master_addr" in options else [f"--master_addr={address}"])]
    words = ["unhang", "run", "--", command[0], *own, *command[1:]]
    # With pdsh the ranks on this node too are started over ssh, without what we set.
    ssh = options.get("launcher", "pdsh") in ("pdsh", "mvapich", "mpich", "impi")
    others = [host for host in hosts if ssh or not same_host(host, here)]
    return UnwatchedNodes(tuple(others), shlex.join(words), on_each=True) if others else None


_LAUNCHERS: dict[str, Callable[[Sequence[str], Mapping[str, str], str, Path], UnwatchedNodes | None]] = {
    "srun": _srun,
    "mpirun": _mpirun,
    "mpiexec": _mpirun,
    "orterun": _mpirun,
    "prterun": _mpirun,
    "deepspeed": _deepspeed,
    "deepspeed.pt": _deepspeed,
}


def _unwatched(others: Sequence[str], words: Sequence[str]) -> UnwatchedNodes:
    return UnwatchedNodes(tuple(others), shlex.join(words))


def _with_unhang_run(command: Sequence[str], program: int | None) -> list[str]:
    """``unhang run --`` directly before the program, which stands ``program`` words after the launcher."""
    if program is None:
        return [command[0], "…", "unhang", "run", "--", "…"]
    return [*command[: program + 1], "unhang", "run", "--", *command[program + 1 :]]


def _split(words: Sequence[str], values: Callable[[str], int]) -> tuple[dict[str, str], int | None]:
    """Options by name, and where the program stands, None without one. ``values``: how many words an option takes."""
    found: dict[str, str] = {}
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return found, at + 1 if at + 1 < len(words) else None
        if not word.startswith("-"):
            return found, at
        count = values(word)
        name, has_value, value = word.lstrip("-").partition("=")
        if not word.startswith("--") and not has_value and count == 0 and len(word) > 2 and word[1] in _SRUN_LETTERS:
            found.setdefault(word[1], word[2:])  # -N3
        found[name] = value if has_value else " ".join(words[at + 1 : at + 1 + count])
        at += 1 + count
    return found, None


def read_host_file(path: Path) -> list[str]:
    """First word of each line of a host file. Raises OSError."""
    with path.open("rb") as file:
        text = file.read(_MAX_BYTES).decode("utf-8", "replace")
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return [words[0].partition(":")[0] for words in lines if words]


def expand_host_list(text: str) -> list[str]:
    """Slurm's ``h[1-3,07],login`` as names; empty where it is none of this."""
    names: list[str] = []
    for word in re.sub(r"\[[^\[\]]*\]", lambda ranges: ranges[0].replace(",", ";"), text[:_MAX_BYTES]).split(","):
        head, opened, rest = word.strip().partition("[")
        ranges, closed, tail = rest.partition("]")
        if bool(opened) != bool(closed) or "]" in head or "[" in tail:
            return []
        if not opened:
            names += [head] if head else []
            continue
        for part in ranges.split(";"):
            first, _, last = part.partition("-")
            if not first.isdecimal() or not (last or first).isdecimal():
                return []
            numbers = range(int(first), int(last or first) + 1)[: MAX_NODES - len(names)]
            names += [f"{head}{number:0{len(first)}d}{tail}" for number in numbers]
    return names


def same_host(name: str, here: str) -> bool:
    """Whether two names mean one machine, one of them perhaps with its domain; or ``name`` is this machine itself."""
    if name in ("localhost", "127.0.0.1", "::1"):
        return True
    return name == here or name.partition(".")[0] == here.partition(".")[0] != ""


def _upper_bound(text: str) -> int:
    """``2``, or the larger of ``2-4``; 0 where it is no number."""
    last = text.rpartition("-")[2]
    return int(last) if last.isdecimal() else 0


def unwatched_nodes_line(command: Sequence[str]) -> Text | None:
    """The line for ``unhang run`` of ``command`` here; None where every rank is watched as far as is known."""
    found = find_unwatched_nodes(command, os.environ)
    return found.line() if found is not None else None
