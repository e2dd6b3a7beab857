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

from unhang.knowledge.job.launch_commands import launcher_of, wrapper_of
from unhang.program.launch.command_words import named_options, read_options
from unhang.sentences import Text, say
from unhang.wire.documents.other_nodes import MAX_NODES

HOSTS_SHOWN = 3
_MAX_BYTES = 1 << 20
_DEEPSPEED_HOSTS = Path("/job/hostfile")


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
    name = PurePath(command[0]).name
    row, launcher = wrapper_of(name, "") or launcher_of(name), _LAUNCHERS.get(name)
    if row is None or launcher is None:
        return None
    options, program = read_options(row, command[1:])
    start = _Start(command, named_options(options), program, environment, here or socket.gethostname(), cwd or Path())
    try:
        return launcher(start)
    except (OSError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class _Start:
    """``command`` taken apart: the launcher's options, and the words of the program it starts."""

    command: Sequence[str]
    options: Mapping[str, str]
    program: Sequence[str]
    environment: Mapping[str, str]
    here: str
    cwd: Path

    def first(self, *names: str) -> str:
        """The value of the first of these options that was given."""
        return next((self.options[name] for name in names if name in self.options), "")

    def hosts_of_job(self) -> list[str]:
        """The nodes that Slurm gave."""
        return expand_host_list(self.environment.get("SLURM_JOB_NODELIST", ""))

    def elsewhere(self, hosts: Sequence[str]) -> UnwatchedNodes | None:
        """Those of ``hosts`` that are not this one, with ``unhang run --`` directly before the program."""
        others = [host for host in dict.fromkeys(hosts) if host and not same_host(host, self.here)]
        return UnwatchedNodes(tuple(others), self._with_unhang_run()) if others else None

    def unknown(self) -> UnwatchedNodes:
        """The launcher has yet to choose the nodes."""
        return UnwatchedNodes((), self._with_unhang_run())

    def _with_unhang_run(self) -> str:
        if not self.program:
            return shlex.join([self.command[0], "…", "unhang", "run", "--", "…"])
        own = self.command[: len(self.command) - len(self.program)]
        return shlex.join([*own, "unhang", "run", "--", *self.program])


def _srun(start: _Start) -> UnwatchedNodes | None:
    named = start.first("w", "nodelist")
    hosts = expand_host_list(named) or start.hosts_of_job()
    count = _upper_bound(start.first("N", "nodes"))
    if not hosts and count > 1:
        return start.unknown()
    return start.elsewhere(hosts if named else hosts[: count or None])


def _mpirun(start: _Start) -> UnwatchedNodes | None:
    named = start.first("H", "host", "hosts")
    file = start.first("hostfile", "machinefile", "f", "default_hostfile")
    if named:
        return start.elsewhere([word.partition(":")[0] for word in named.split(",")])
    return start.elsewhere(read_host_file(start.cwd / file) if file else start.hosts_of_job())


def _deepspeed(start: _Start) -> UnwatchedNodes | None:
    options = start.options
    if "no_ssh" in options:
        return None
    hosts = read_host_file(start.cwd / (start.first("hostfile", "H") or _DEEPSPEED_HOSTS))
    chosen = start.first("include", "i")
    if chosen:
        hosts = [part.partition(":")[0].strip() for part in chosen.split("@")]
    out = [part.strip() for part in start.first("exclude", "e").split("@") if ":" not in part]
    hosts = [host for host in hosts if host not in out]
    hosts = hosts[: _upper_bound(start.first("num_nodes")) or None]
    if len(hosts) < 2 and "force_multi" not in options:
        return None
    address = options.get("master_addr") or hosts[0]
    own = ["--no_ssh", "--node_rank=N", *([] if "master_addr" in options else [f"--master_addr={address}"])]
    words = ["unhang", "run", "--", start.command[0], *own, *start.command[1:]]
    # With pdsh the ranks on this node too are started over ssh, without what we set.
    ssh = options.get("launcher", "pdsh") in ("pdsh", "mvapich", "mpich", "impi")
    others = [host for host in hosts if ssh or not same_host(host, start.here)]
    return UnwatchedNodes(tuple(others), shlex.join(words), on_each=True) if others else None


_LAUNCHERS: dict[str, Callable[[_Start], UnwatchedNodes | None]] = {
    "srun": _srun,
    "mpirun": _mpirun,
    "mpiexec": _mpirun,
    "orterun": _mpirun,
    "prterun": _mpirun,
    "deepspeed": _deepspeed,
    "deepspeed.pt": _deepspeed,
}


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
