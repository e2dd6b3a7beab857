"""The run folder: what one run of ``unhang run`` leaves behind, and where in it. Private to the user."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from unhang.errors import UsageError
from unhang.report.printable import printable
from unhang.watch import private_files
from unhang.wire.documents.run_plan import RunPlan

MAX_IN_A_SECOND = 100


def create_private_folder(path: Path) -> Path:
    """``path``, new and for its owner alone.

    Raises:
        UsageError: it holds something already, or cannot be made.
    """
    try:
        if path.is_dir() and any(path.iterdir()):
            raise UsageError(f"{path} is not empty; name another folder with --dir.")
        private_files.make_folder(path)
        path.chmod(0o700)
    except OSError as error:
        raise _unusable(path, error) from error
    return path


def _unusable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be used as the run folder ({error.strerror}).")


def free_place(name: str, below: str = "") -> Path:
    """``unhang-runs/NAME``, numbered when several runs start in one second; ``below`` it, one a machine.

    Raises:
        UsageError: there is none.
    """
    parent = Path("unhang-runs")
    for number in range(1, MAX_IN_A_SECOND):
        path = parent / (name if number == 1 else f"{name}-{number}") / below
        try:
            if not path.exists():
                return path
        except OSError as error:
            raise _unusable(path, error) from error
    raise UsageError(f"{parent / name} and all names after it are taken")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths inside a run folder. What is ours alone lies in ``.unhang``, where nobody looks for evidence."""

    path: Path
    records: Path | None = None
    """Local and with room left where the run folder's file system has neither: lines for the terminal, the plan."""

    def __post_init__(self) -> None:
        private_files.RUN_FOLDERS.add(self.path)

    @classmethod
    def create(cls, path: Path) -> RunFolder:
        """A new private run folder at ``path``.

        Raises:
            UsageError: it holds something already, or cannot be made.
        """
        path = path.absolute()
        create_private_folder(path)
        try:
            for name in ("dumps", "crash", ".unhang"):
                private_files.make_folder(path / name)
        except OSError as error:
            raise _unusable(path, error) from error
        return cls(path)

    @property
    def plan_file(self) -> Path:
        """``run.json``."""
        return self.path / "run.json"

    @property
    def said(self) -> Path:
        """Lines for the terminal: the watcher adds them, the command runner prints them."""
        return (self.records or self.path / ".unhang") / "said.txt"

    @property
    def verdict(self) -> Path:
        """``verdict.json``."""
        return self.path / "verdict.json"

    @property
    def localized_verdict(self) -> Path:
        """The same in the language of the run, for ``--on-hang-exec``; ``verdict.json`` itself is English."""
        return self.path / ".unhang" / "verdict-told.json"

    def write_plan(self, plan: RunPlan) -> None:
        """Write ``run.json``, and beside the records with what to run on a stall; where there is no room, neither."""
        from unhang.secrets import words_without_secrets

        whole = replace(plan, command=words_without_secrets(plan.command))
        kept = replace(whole, on_hang_exec="")  # an address to post at, perhaps with its key: of no use to who reads it
        for path, told in ((self._plan_copy, whole), (self.plan_file, kept)):
            with suppress(OSError):
                private_files.write_atomically(path, told.json())

    @property
    def _plan_copy(self) -> Path:
        return (self.records or self.path / ".unhang") / "run.json"

    def read_plan(self) -> RunPlan:
        """Read ``run.json``. Raises OSError or ValueError when it is missing or torn."""
        path = self._plan_copy if self._plan_copy.exists() else self.plan_file
        return msgspec.json.decode(path.read_bytes(), type=RunPlan)

    def say(self, text: str) -> None:
        """Add lines for the terminal; a folder that takes none is not worth an error."""
        with suppress(OSError):
            clean = printable(text).encode("utf-8", "backslashreplace")
            private_files.append(self.said, private_files.masked_bytes(clean))

    def mark_verdict_end(self) -> None:
        """A verdict has just been said: whoever waits for it may leave once it is printed."""
        with suppress(OSError):
            private_files.write_atomically(self._verdict_end, b"%d" % self.said.stat().st_size)

    def is_verdict_printed(self, printed: int, since_s: float) -> bool:
        """Whether a verdict said at ``since_s`` (since the epoch) or later is among the first ``printed`` bytes."""
        with suppress(OSError, ValueError):
            return self._verdict_end.stat().st_mtime >= since_s and printed >= int(self._verdict_end.read_bytes())
        return False

    @property
    def _verdict_end(self) -> Path:
        return self.said.with_name("verdict-end")
