"""Look for the checkpoints of a job in a process of its own: storage that does not answer holds nobody up.

``python -m unhang.watch.sampling.checkpoint_search`` reads one request (JSON) from its standard
input and prints one listing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from unhang.evidence.checkpoints.checkpoint import Checkpoint
from unhang.evidence.checkpoints.checkpoint_listing import checkpoint_listing, read_checkpoint_listing
from unhang.findings import Source, Unread
from unhang.watch.side_process import SideQuestion

LIMIT_S = 20.0
"""Seconds, for a search that somebody asked for and waits for."""
STALL_LIMIT_S = 2.0
"""A verdict waits no longer for it than so, after everything else is known."""


class CheckpointSearch(SideQuestion):
    """A search under way; its answer is a listing."""

    def __init__(
        self, folders: Iterable[Path] = (), *, command: Sequence[str] = (), cwd: str = "", world_size: int | None = None
    ) -> None:
        """Look in ``folders``, and where ``command``, started in ``cwd``, says that it saves."""
        request = {
            "folders": [str(folder.absolute()) for folder in folders],
            "command": list(command),
            "cwd": cwd,
            "world_size": world_size,
        }
        super().__init__(["unhang.watch.sampling.checkpoint_search"], told=json.dumps(request).encode())

    def found(self, limit_s: float) -> tuple[Checkpoint, ...] | None:
        """The checkpoints, newest first; None when there was no answer within ``limit_s``."""
        read = read_checkpoint_listing(self.answer(limit_s) or b"", source=Source("checkpoints"))
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
