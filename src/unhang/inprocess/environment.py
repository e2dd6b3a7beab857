"""What a command's environment needs for its Python processes to be recorded. Read by the process that starts it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

STARTUP_FOLDER = Path(__file__).resolve().parent / "startup"
RECORDER = {
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
    "TORCH_FR_BUFFER_SIZE": "2000",
}
"""The flight recorder is off up to torch 2.10; both names, since versions read either."""


def for_command(
    environ: Mapping[str, str], records_folder: Path, run_folder: Path, *, startup_hook: bool = True
) -> dict[str, str]:
    """``environ`` for a command whose ranks write into ``records_folder`` and ``run_folder`` (both absolute).

    ``startup_hook`` False leaves PYTHONPATH alone: then ranks are found only where unhang is installed in their own
    environment (torch's entry point). The recorder is switched on only where none of its variables is set.
    """
    said = dict(environ)
    said["UNHANG_RUN"] = str(records_folder)
    said["UNHANG_RUN_DIR"] = str(run_folder)
    if startup_hook:
        before = environ.get("PYTHONPATH", "")
        said["PYTHONPATH"] = os.pathsep.join([str(STARTUP_FOLDER), *([before] if before else [])])
    if not any(name in environ for name in RECORDER):
        said.update(RECORDER)
    return said
