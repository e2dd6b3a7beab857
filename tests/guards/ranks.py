"""Real ranks for the guards' tests: processes of one Gloo group, forked within milliseconds from a server that has
torch loaded. What runs in them is a module-level function of the test's file."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

from tests.ports import free_port

ONE_MACHINE = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "UNHANG": ""}
END_LIMIT_S = 60.0
"""So long a rank may take to end that has said all it had to say."""
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "torch.distributed", "torch.distributed.checkpoint.state_dict"])


@dataclass(slots=True)
class Outcome:
    """How one rank ended. ``value``: what its function gave; ``error``: name of the exception it fell with."""

    rank: int
    value: Any = None
    error: str = ""
    message: str = ""
    trace: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None

    def get(self) -> Any:
        """The value; fails with the rank's own traceback where there is none."""
        assert not self.error, f"rank {self.rank}: {self.trace}"
        assert self.exit_code == 0, f"rank {self.rank} ended with {self.exit_code}"
        return self.value


def run_ranks(
    body: Callable[..., Any],
    *arguments: Any,
    world_size: int = 2,
    limit_s: float = 100.0,
    until: int | None = None,
    store: Literal["agent", "rank0", "file"] = "agent",
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[Outcome]:
    """``body(rank, *arguments)`` in ``world_size`` ranks, each in the default group; one outcome a rank.

    ``store``: who keeps it: a process that outlives every rank (as under torchrun), rank 0, or a file in ``folder``.
    Ranks that are not done after ``limit_s``, or once rank ``until`` is done, are killed: exit code -9.
    """
    from torch.distributed import TCPStore

    server = TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=60), wait_for_workers=False)
    port = server.port if store == "agent" else free_port()
    setting = {
        **ONE_MACHINE,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "TORCHELASTIC_RESTART_COUNT": "0",
        **({"TORCHELASTIC_USE_AGENT_STORE": "True"} if store == "agent" else {}),
        **(environment or {}),
    }
    method = f"file://{folder}/store" if store == "file" else "env://"
    lines: dict[Connection, Outcome] = {}
    ranks: dict[int, multiprocessing.process.BaseProcess] = {}
    started = time.monotonic()
    for rank in range(world_size):
        ours, theirs = _context.Pipe(duplex=False)
        own = {**setting, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        ranks[rank] = _context.Process(target=_be_rank, args=(theirs, own, method, body, arguments), daemon=True)
        ranks[rank].start()
        theirs.close()
        lines[ours] = Outcome(rank)
    outcomes = list(lines.values())
    while lines and (left_s := started + limit_s - time.monotonic()) > 0:
        for line in wait(list(lines), timeout=left_s)[:1]:
            outcome = lines.pop(line)  # type: ignore[call-overload]
            _hear(line, outcome)  # type: ignore[arg-type]
            if outcome.rank == until:
                limit_s = 0.0
    unheard = {outcome.rank for outcome in lines.values()}
    for outcome in outcomes:
        process = ranks[outcome.rank]
        if outcome.rank not in unheard:
            process.join(END_LIMIT_S)
        if process.is_alive():
            os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
        outcome.exit_code = process.exitcode
    return outcomes


def _hear(line: Connection, outcome: Outcome) -> None:
    try:
        said = line.recv()
    except (EOFError, OSError):
        return  # it ended without a word
    for name, value in said.items():
        setattr(outcome, name, value)


def _be_rank(line: Connection, own: dict[str, str], method: str, body: Callable[..., Any], arguments: Any) -> None:
    os.environ.update(own)
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rank = int(own["RANK"])
    dist.init_process_group(
        "gloo", init_method=method, rank=rank, world_size=int(own["WORLD_SIZE"]), timeout=timedelta(seconds=60)
    )
    said: dict[str, Any] = {}
    try:
        said["value"] = body(rank, *arguments)
    except BaseException as error:  # noqa: BLE001 - told to the test
        kept = {name: value for name, value in vars(error).items() if isinstance(value, (str, int, tuple, dict))}
        said = {"error": type(error).__name__, "message": str(error), "attributes": kept}
        said["trace"] = traceback.format_exc()
    line.send(said)
    line.close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a partner that was killed would make the teardown of the group wait
