"""What runs in a worker of a cluster: ``read_task`` for each task, and before the first one ``about_worker``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from unhang import __version__
from unhang.errors import EvidenceError, UsageError
from unhang.evidence.engines.tasks import ReadTask
from unhang.evidence.evidence_parts import EvidencePart
from unhang.evidence.evidence_reader import read_part

_ONE_AT_A_TIME = threading.Lock()
"""The readers are made for one thread; a worker of Dask may have several."""

_ABOUT = """
def about_worker(paths):
    import os, socket, sys
    try:
        from unhang import __version__ as version
    except ImportError:
        version = ""
    gone = [path for path in paths if not os.path.lexists(path)]
    return socket.gethostname(), "%d.%d" % sys.version_info[:2], version, gone
"""
"""As a text: a worker that has no unhang, or another one, has to be able to run it."""


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """A worker before the first task. ``unhang``: its version, empty where it has none; ``gone``: paths it lacks."""

    host: str
    python: str
    unhang: str
    gone: Sequence[str] = ()


def about_worker() -> Callable[[Sequence[str]], Any]:
    """A function that is sent by value and gives the fields of :class:`WorkerFacts` for paths that it shall find."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(_ABOUT, scope)  # noqa: S102 - our own text
    function: Callable[[Sequence[str]], Any] = scope["about_worker"]
    return function


def check_workers(workers: Sequence[WorkerFacts], python: str) -> None:
    """Raise UsageError unless all of ``workers`` can read for this unhang, which runs on ``python`` (``3.12``)."""
    if not workers:
        raise UsageError("the cluster has no workers", next_step="start some, or leave --engine out")
    for one in workers:
        if one.python != python:
            raise UsageError(f"the worker on {one.host} runs Python {one.python}, and this is Python {python}")
        if not one.unhang:
            raise UsageError(f"the worker on {one.host} has no unhang", next_step=f"install unhang {__version__} there")
        if one.unhang != __version__:
            raise UsageError(
                f"the worker on {one.host} has unhang {one.unhang}, and this is unhang {__version__}",
                next_step="install the same version on both",
            )
        if one.gone:
            raise UsageError(
                f"the worker on {one.host} does not see {one.gone[0]}",
                next_step="put it on a file system that all workers see, or give its URL",
            )


def read_task(task: ReadTask) -> EvidencePart:
    """Everything the files of ``task`` hold.

    Raises:
        EvidenceError: this worker came later, with another version of unhang.
    """
    if task.version != __version__:
        raise EvidenceError(f"a worker has unhang {__version__}, and this is unhang {task.version}")
    with _ONE_AT_A_TIME:
        return read_part(task.found(), task.limits, log_bytes=task.log_bytes)
