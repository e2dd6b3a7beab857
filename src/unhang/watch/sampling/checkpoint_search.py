"""Look for the checkpoints of a job in a process of its own: storage that does not answer holds nobody up.

``python -m unhang.watch.sampling.checkpoint_search`` reads one request (JSON) from its standard
input and prints one listing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from unhang.evidence.checkpoints.checkpoint import Checkpoint
from unhang.evidence.checkpoints.checkpoint_listing import checkpoint_listing, read_checkpoint_listing
from unhang.findings import Source, Unread
from unhang.watch import side_process

LIMIT_S = 20.0
"""Seconds, for a search that somebody asked for and waits for."""
STALL_LIMIT_S = 2.0
"""A verdict waits no longer for it than so, after everything else is known."""


@dataclass(slots=True)
class CheckpointSearch:
    """A search under way. Call :meth:`found` once."""

    process: subprocess.Popen[bytes]

    @classmethod
    def start(
        cls, folders: Iterable[Path] = (), *, command: Sequence[str] = (), cwd: str = "", world_size: int | None = None
    ) -> CheckpointSearch:
        """Look in ``folders``, and where ``command``, started in ``cwd``, says that it saves.

        Raises:
            OSError: no process can be started.
        """
        request = {
            "folders": [str(folder.absolute()) for folder in folders],
            "command": list(command),
            "cwd": cwd,
            "world_size": world_size,
        }
        return cls(side_process.start(["unhang.watch.sampling.checkpoint_search"], told=json.dumps(request).encode()))

    def listing(self, limit_s: float) -> bytes:
        """The listing; empty when there was no answer within ``limit_s``, and the process is gone then."""
        try:
            out, _ = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            side_process.end(self.process)
            return b""
        return out if self.process.returncode == 0 else b""

    def found(self, limit_s: float) -> tuple[Checkpoint, ...] | None:
        """The checkpoints, newest first; None when there was no answer within ``limit_s``."""
        read = read_checkpoint_listing(self.listing(limit_s), source=Source("checkpoints"))
        return None if isinstance(read, Unread) else read


def main() -> int:
    """Answer the request on standard input."""
    from unhang.check.storage.storage_paths import find_job_paths
    from unhang.evidence.checkpoints.checkpoint_search import find_checkpoints
    from unhang.host.machine import Machine
    from unhang.program.launch.planned_job import PlannedJob

    request = json.load(sys.stdin)
    folders = list(request["folders"])
    if request["command"]:
        with suppress(OSError):
            os.chdir(request["cwd"] or "/")
        places = find_job_paths(Machine(), PlannedJob(command=tuple(request["command"])))
        folders += [place.path for place in places if place.use == "checkpoints"]
    sys.stdout.write(checkpoint_listing(find_checkpoints(folders, world_size=request["world_size"])).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
