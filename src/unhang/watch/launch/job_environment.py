"""The few environment variables a watched command gets on top of its own. None that the user set is changed.

The flight recorder's own variables are not among them: which one a torch reads depends on its version, which only the
ranks know (``inprocess.arming``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import unhang

RECORDS_VARIABLE = "UNHANG_RUN"
RUN_FOLDER_VARIABLE = "UNHANG_RUN_DIR"
STARTUP_FOLDER = Path(unhang.__file__).parent / "inprocess" / "startup"


def environment_of_job(base: Mapping[str, str], records: Path, run_folder: Path) -> dict[str, str]:
    """``base`` with what our start-up hook needs."""
    return {**with_startup_hook(base), RECORDS_VARIABLE: str(records), RUN_FOLDER_VARIABLE: str(run_folder)}


def with_startup_hook(base: Mapping[str, str]) -> dict[str, str]:
    """``base`` with our start-up hook before what Python finds otherwise."""
    own = base.get("PYTHONPATH")
    return {**base, "PYTHONPATH": f"{STARTUP_FOLDER}{os.pathsep}{own}" if own else str(STARTUP_FOLDER)}
