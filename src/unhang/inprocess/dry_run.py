"""A run up to its first steps: this rank says what it starts with, or how long its first steps took, and ends.

Only where ``UNHANG_DRY_RUN`` names a folder. ``UNHANG_DRY_RUN_STEPS`` is 0 to end before the first optimizer step,
else the number of steps to time; ``UNHANG_DRY_RUN_PEERS``: how many ranks share the folder, where the launcher does
not say. Each rank leaves ``rank_<rank>.json`` (schema ``unhang.start/1``) there, first when it begins to read data, so
that a rank that never reaches a step is known too. The process ends with ``os._exit``: nothing of the program that
stands after the step runs, no checkpoint of it is written.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from contextlib import suppress
from typing import Any

from unhang.inprocess import annotations as marked
from unhang.inprocess.capture import start_state
from unhang.inprocess.import_hooks import when_imported
from unhang.inprocess.internal_errors import environment_number
from unhang.inprocess.process_registration import write_atomically

FOLDER, STEPS, PEERS = "UNHANG_DRY_RUN", "UNHANG_DRY_RUN_STEPS", "UNHANG_DRY_RUN_PEERS"
SCHEMA = "unhang.start/1"
PEERS_S = 30.0
"""So long a rank that is done waits for the others of its machine, so that none loses a neighbour before its step."""
REST_S = 1.0

_run: DryRun | None = None


def begin() -> None:
    """Follow optimizers and data loaders of this process, once."""
    global _run  # noqa: PLW0603
    folder = os.environ.get(FOLDER)
    if not folder or _run is not None:
        return
    _run = DryRun(folder, max(0, environment_number(STEPS, 0)))
    atexit.register(_run.program_ended)
    when_imported("torch.utils.data.dataloader", _run.follow_loaders)
    when_imported("torch.optim.optimizer", _run.follow_optimizers)


class DryRun:
    """What one rank has seen so far. Its methods are called by the program's own threads and never raise."""

    def __init__(self, folder: str, steps_wanted: int) -> None:
        self._folder, self._wanted = folder, steps_wanted
        self._pid = os.getpid()
        self._loaders = start_state.DataLoaders()
        self._random: dict[str, dict[str, str]] = {}
        self._parameters: dict[str, Any] | None = None
        self._optimizer: Any = None
        self._stage = ""
        self._at_ns: list[int] = []

    def follow_loaders(self, module: Any) -> None:
        """Note every DataLoader that is made, and when one is read first."""
        loader = module.DataLoader
        made, read, run = loader.__init__, loader.__iter__, self

        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            made(self, *args, **kwargs)
            with suppress(Exception):
                run._loaders.made(self, sys._getframe(1))  # noqa: SLF001  the line that makes it

        def __iter__(self: Any) -> Any:  # noqa: N807
            with suppress(Exception):
                run.reads(self)
            return read(self)

        replaced: tuple[tuple[str, Any, Any], ...] = (("__init__", __init__, made), ("__iter__", __iter__, read))
        for name, ours, theirs in replaced:
            ours.__wrapped__, ours.__qualname__, ours.__doc__ = theirs, theirs.__qualname__, theirs.__doc__
            setattr(loader, name, ours)

    def follow_optimizers(self, module: Any) -> None:
        """Be told before and after every optimizer step."""
        module.register_optimizer_step_pre_hook(self._before_step)
        module.register_optimizer_step_post_hook(self._after_step)

    def reads(self, loader: Any) -> None:
        """The program begins to read ``loader``."""
        self._random.setdefault("data", start_state.random_states())
        if self._loaders.read(loader) and not self._parameters:
            self._stage = "data"
            self._write()

    def _before_step(self, optimizer: Any, *_: Any) -> None:
        if self._optimizer is not None:
            return
        self._optimizer = optimizer
        try:
            self._random["step"] = start_state.random_states()
            self._parameters = start_state.parameters(optimizer)
        finally:
            self._stage = "step"
            self._write()
            if not self._wanted:
                self._leave()

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        """Times are taken from the end of one step to the end of the next; the first one is warming up."""
        if optimizer is not self._optimizer or not self._wanted:
            return
        start_state.synchronize_device()
        marked.step()
        self._at_ns.append(time.monotonic_ns())
        done = len(self._at_ns) > self._wanted
        self._stage = "done" if done else "stepping"
        self._write()
        if done:
            self._leave()

    def program_ended(self) -> None:
        """The program ends of its own accord: a rank that had no step to make says so."""
        if os.getpid() == self._pid and self._stage:
            self._stage = "ended"
            with suppress(Exception):
                self._write()

    def _write(self) -> None:
        try:
            rank, world_size = start_state.rank_and_world()
            said = {
                "schema": SCHEMA,
                "rank": rank,
                "world_size": world_size,
                "peers": _peers(),
                "host": os.uname().nodename,
                "pid": os.getpid(),
                "stage": self._stage,
                "step_s": [(b - a) / 1e9 for a, b in zip(self._at_ns, self._at_ns[1:], strict=False)],
                "versions": start_state.versions(),
                "random": self._random,
                "loaders": self._loaders.told(),
                "parameters": self._parameters,
                "memory": start_state.memory(),
            }
            write_atomically(self._folder, f"rank_{rank}.json", json.dumps(said, default=str).encode())
        except Exception as error:  # noqa: BLE001  the edge to the user's program
            with suppress(OSError):
                trouble = f"{type(error).__name__}: {error}".encode()
                write_atomically(self._folder, f"trouble_{os.getpid()}.txt", trouble)

    def _leave(self) -> None:
        """End this process and nothing else, once its neighbours on this machine are as far (or long overdue)."""
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        _place_mark(f"{self._folder}/done_{os.getpid()}")
        deadline = time.monotonic() + PEERS_S
        peers = max(1, _peers())
        while time.monotonic() < deadline and _marks(self._folder) < peers:
            time.sleep(0.05)
        time.sleep(REST_S if start_state.rank_and_world()[1] > peers else 0.1)
        os._exit(0)


def _peers() -> int:
    """Ranks that share this folder; 0 where nothing says."""
    return (
        environment_number(PEERS, 0) or environment_number("LOCAL_WORLD_SIZE", 0) or environment_number("LOCAL_SIZE", 0)
    )


def _place_mark(path: str) -> None:
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))


def _marks(folder: str) -> int:
    try:
        return sum(name.startswith("done_") for name in os.listdir(folder))  # noqa: PTH208
    except OSError:
        return 1 << 30
