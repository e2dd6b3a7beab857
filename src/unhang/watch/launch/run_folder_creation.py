"""Where a run's folder goes: what the user named, or a place of our own choice that can be written to."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from unhang.errors import UsageError
from unhang.report.printable import one_line
from unhang.sentences import Text, say
from unhang.watch.job.sibling_tasks import SiblingTasks
from unhang.watch.nodes.transport.node_discovery import JobNodes, node_name
from unhang.watch.run_folder import RunFolder

MAX_IN_A_SECOND = 100


def create_run_folder(named: Path | None, us: SiblingTasks | None, nodes: JobNodes | None = None) -> RunFolder:
    """A new run folder: ``named``, or ``unhang-runs/TIME``; below it one a machine where a start spans several.

    Raises:
        UsageError: ``named`` holds something already.
        OSError: nothing can be written anywhere.
    """
    below = node_name(os.environ) if nodes is not None or (us is not None and us.several_machines) else ""
    if named is not None:
        return _create_named(named / below)
    name = us.name if us is not None and below and us.name else time.strftime("%Y%m%d-%H%M%S")
    try:
        return _create_numbered(Path("unhang-runs"), name, below)
    except UsageError:
        return _create_fallback(say("nothing can be written to the current folder"))


def _create_named(path: Path) -> RunFolder:
    try:
        return RunFolder.create(path)
    except UsageError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        return _create_fallback(say("nothing can be written to {path}", path=str(path)))


def _create_fallback(because: Text) -> RunFolder:
    """A disk that takes nothing costs the place of the evidence, not the job."""
    found = RunFolder.create(Path(tempfile.mkdtemp(prefix="unhang-run-")))
    text = say("{because}; the run folder is {folder}", because=because, folder=str(found.path))
    with suppress(OSError):
        print(f"unhang: {one_line(str(text))}", file=sys.stderr, flush=True)
    return found


def _create_numbered(parent: Path, name: str, below: str) -> RunFolder:
    """Numbered when several runs start in one second."""
    for number in range(1, MAX_IN_A_SECOND):
        path = parent / (name if number == 1 else f"{name}-{number}") / below
        if not path.exists():
            return RunFolder.create(path)
    raise UsageError(f"{parent / name} and all that follow hold something already")
