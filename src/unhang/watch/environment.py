"""The few environment variables a watched command gets on top of its own. None that the user set is changed."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import unhang

RECORDS = "UNHANG_RUN"
RUN_FOLDER = "UNHANG_RUN_DIR"
RING_ENTRIES = "2000"
_RING_OLD, _RING_NEW = "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE"
STARTUP = Path(unhang.__file__).parent / "inprocess" / "startup"


def environment_of_job(base: Mapping[str, str], records: Path, run_folder: Path) -> dict[str, str]:
    """``base`` with what our start-up hook needs, and the flight recorder turned on where nobody decided."""
    environment = dict(base)
    environment[RECORDS] = str(records)
    environment[RUN_FOLDER] = str(run_folder)
    own = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{STARTUP}{os.pathsep}{own}" if own else str(STARTUP)
    if _RING_OLD not in environment and _RING_NEW not in environment:
        environment.update(dict.fromkeys(_ring_variables(), RING_ENTRIES))
    return environment


def _ring_variables() -> tuple[str, ...]:
    """The recorder is off by default up to torch 2.10. From 2.8 on the old name works but is complained about."""
    with suppress(importlib.metadata.PackageNotFoundError, ValueError):
        version = importlib.metadata.version("torch")
        return (_RING_NEW,) if tuple(int(part) for part in version.split(".")[:2]) >= (2, 8) else (_RING_OLD,)
    return (_RING_OLD, _RING_NEW)
