"""The machine that is inspected: files, commands, environment. Every read has a limit and none raises.

:class:`Machine` is this one. :class:`StoredMachine` replays a folder, so that machines we do not have are tested::

    root/etc/nccl.conf …      files as they stand at those paths; a colon in a name is written %3A
    machine.toml              node = "h1"; [environment]; [packages] torch = "2.8.0"; [space."/dev/shm"] size, free;
                              [[command]] words = "nvidia-smi topo -m", output = "topo.txt" (or text = "…"), code = 0
"""

from __future__ import annotations

import copy
import os
import platform
import posixpath
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import msgspec
import tomli

from unhang.errors import UsageError
from unhang.host.inspection_result import InspectionResult
from unhang.sentences import Text, say

MAX_BYTES = 4 << 20
COMMAND_LIMIT_S = 8.0
_ABSENT_ERRORS = (FileNotFoundError, NotADirectoryError, ValueError)
"""``ValueError``: a name with a NUL, read somewhere else, that no file can have."""


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """What a command printed (standard error behind standard output) and its exit code."""

    text: str
    code: int


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """A file system: bytes in all, and free to this user."""

    size: int
    free: int


class Machine:
    """This machine. ``root`` stands before every path, so that tests can look at a folder."""

    def __init__(self, root: Path = Path("/"), environment: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.environment: Mapping[str, str] = dict(os.environ if environment is None else environment)
        self.node = platform.node()
        self.folder = str(Path.cwd())
        """What relative paths of the job are relative to."""
        self.moved = ""
        """The folder that a script goes into before it starts the program, as seen from the user's."""
        self.asked_in = ""
        """The user's folder, where the command is given and ``folder`` is another one."""
        self.site: tuple[str, ...] | None = None
        """Where the packages of the interpreter that would run the job lie; None: those beside unhang."""
        self.made: Mapping[str, InspectionResult[str]] = {}
        """Files that the job's scripts write before, by absolute path; one that they may write has no text."""

    def for_job(self, moved: str, environment: Mapping[str, str]) -> Machine:
        """The same machine in the folder and with the variables that the program is started with."""
        job = copy.copy(self)
        job.environment, job.moved, job.asked_in = dict(environment), moved, self.asked_in or self.folder
        job.folder = posixpath.normpath(posixpath.join(self.folder, moved))
        return job

    def path(self, path: str) -> Path:
        """Where ``path`` of the machine lies for us."""
        return self.root / path.lstrip("/")

    def read(self, path: str) -> InspectionResult[str]:
        """The text of a file (its first 4 MiB); nothing when there is no such file."""
        try:
            with self.path(path).open("rb") as file:
                return InspectionResult(file.read(MAX_BYTES).decode("utf-8", "replace"))
        except _ABSENT_ERRORS:
            return InspectionResult()
        except OSError as error:
            return InspectionResult(because=_refused(path, error))

    def text(self, path: str) -> str:
        """The text of a file without blanks around it; empty where there is none, or it may not be read."""
        return (self.read(path).found or "").strip()

    def read_named(self, path: str) -> InspectionResult[str]:
        """The text of a file the user named: relative to the folder of the job, unless it is absolute."""
        whole = posixpath.join(self.folder, path)
        made = self.made.get(posixpath.normpath(whole), InspectionResult())
        if made.found is not None:
            return made
        there = self.read(whole)
        return made if there == InspectionResult() else there

    def entries(self, path: str) -> InspectionResult[tuple[str, ...]]:
        """The names in a folder, sorted; nothing when there is no such folder."""
        try:
            return InspectionResult(tuple(sorted(entry.name for entry in self.path(path).iterdir())))
        except _ABSENT_ERRORS:
            return InspectionResult()
        except OSError as error:
            return InspectionResult(because=_refused(path, error))

    def space(self, path: str) -> InspectionResult[DiskSpace]:
        """Size and free bytes of the file system under ``path``."""
        try:
            found = os.statvfs(self.path(path))
        except _ABSENT_ERRORS:
            return InspectionResult()
        except OSError as error:
            return InspectionResult(because=_refused(path, error))
        return InspectionResult(DiskSpace(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize))

    def installed(self, package: str) -> str:
        """The version of an installed Python package, from its metadata; empty when there is none."""
        folders = sys.path if self.site is None else [str(self.path(folder)) for folder in self.site]
        return next((found.version for found in metadata.distributions(name=package, path=folders)), "") or ""

    def command(self, words: Sequence[str], limit_s: float = COMMAND_LIMIT_S) -> InspectionResult[CommandOutput]:
        """What a command prints; nothing when there is no such command. It is killed, with its children, at the limit.

        The environment is that of this machine, with ``LC_ALL=C``.
        """
        try:
            process = subprocess.Popen(
                list(words),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**self.environment, "LC_ALL": "C"},
                start_new_session=True,
            )
        except _ABSENT_ERRORS:
            return InspectionResult()
        except OSError as error:
            return InspectionResult(because=_refused(words[0], error))
        try:
            out, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            _reap(process)
            return InspectionResult(
                because=say("{command} did not answer within {seconds:.0f} s", command=words[0], seconds=limit_s),
                how=shlex.join(words),
            )
        return InspectionResult(CommandOutput(out[:MAX_BYTES].decode("utf-8", "replace"), process.returncode))

    def program(
        self, code: Path | str, words: Sequence[str], limit_s: float, told: Mapping[str, str] | None = None
    ) -> InspectionResult[CommandOutput]:
        """What Python code of ours prints, in a process of its own: a file, for trials that may hang or must be undone;
        or a module, for experiments with ``told`` in the environment, which end when we do."""
        if isinstance(code, Path):
            return self.command([sys.executable, "-I", "-S", str(code), *words], limit_s)
        environment = [f"{name}={value}" for name, value in (told or {}).items()]
        module = [sys.executable, "-m", code, *words, "--of", str(os.getpid())]
        return self.command(["env", *environment, *module], limit_s)


class _Command(msgspec.Struct):
    words: str
    text: str | None = None
    output: str = ""
    code: int = 0
    refused: str | None = None


class _StoredMachineFile(msgspec.Struct):
    """``machine.toml``."""

    node: str = ""
    folder: str = "/"
    environment: dict[str, str] = {}
    packages: dict[str, str] = {}
    space: dict[str, DiskSpace] = {}
    command: list[_Command] = []


class StoredMachine(Machine):
    """A machine replayed from a folder; it has only what is stored."""

    def __init__(self, folder: Path) -> None:
        try:
            told = tomli.loads((folder / "machine.toml").read_text(encoding="utf-8"))
            stored = msgspec.convert(told, _StoredMachineFile)
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"{folder} is not a stored machine: machine.toml cannot be read ({error})") from error
        super().__init__(folder / "root", stored.environment)
        self.node = stored.node or folder.name
        self.folder = stored.folder
        self._space = stored.space
        self._packages = stored.packages
        self._commands = {command.words: command for command in stored.command}
        self._folder = folder

    def path(self, path: str) -> Path:
        """Where ``path`` is stored: not every file system takes the colons of PCI addresses."""
        return super().path(path.replace(":", "%3A"))

    def entries(self, path: str) -> InspectionResult[tuple[str, ...]]:
        """The names as they stand on the machine."""
        stored = super().entries(path)
        if stored.found is None:
            return stored
        return InspectionResult(tuple(sorted(name.replace("%3A", ":") for name in stored.found)))

    def installed(self, package: str) -> str:
        """The stored version of ``package``."""
        return self._packages.get(package, "")

    def space(self, path: str) -> InspectionResult[DiskSpace]:
        """The stored size of ``path``."""
        return InspectionResult(self._space.get(path))

    def command(self, words: Sequence[str], limit_s: float = COMMAND_LIMIT_S) -> InspectionResult[CommandOutput]:  # noqa: ARG002
        """The stored output of exactly these words."""
        stored = self._commands.get(shlex.join(words))
        if stored is None:
            return InspectionResult()
        if stored.refused is not None:
            because = say("{what}: {reason}", what=words[0], reason=stored.refused)
            return InspectionResult(because=because, how=shlex.join(words))
        text = stored.text if stored.text is not None else self._output(stored.output)
        return InspectionResult() if text is None else InspectionResult(CommandOutput(text, stored.code))

    def _output(self, name: str) -> str | None:
        """None where the file that ``machine.toml`` names is not there."""
        try:
            return (self._folder / name).read_bytes().decode("utf-8", "replace")
        except (OSError, ValueError):
            return None

    def program(
        self,
        code: Path | str,
        words: Sequence[str],
        limit_s: float,
        told: Mapping[str, str] | None = None,  # noqa: ARG002
    ) -> InspectionResult[CommandOutput]:
        """The stored output of ``<name of the file or module> <words>``."""
        return self.command([code.name if isinstance(code, Path) else code, *words], limit_s)


def _refused(what: str, error: OSError) -> Text:
    return say("{what}: {reason}", what=what, reason=error.strerror or type(error).__name__)


def _reap(process: subprocess.Popen[bytes]) -> None:
    """A killed child is gone soon; one in an uninterruptible wait (a dead driver) is not waited for."""
    try:
        process.communicate(timeout=1)
    except subprocess.TimeoutExpired:
        if process.stdout is not None:
            process.stdout.close()
