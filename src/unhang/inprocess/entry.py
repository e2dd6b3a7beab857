"""Both ways in meet here: the start-up hook on PYTHONPATH, and torch's own entry point for extensions.

At start there is only a birth record and a finder that waits for torch.distributed to be imported: no thread, no
open file. The rank arms when it enters ``init_process_group`` (``arming``).
"""

from __future__ import annotations

import os
import sys

_begun_by: int | None = None


def begin(entered_by: str) -> None:
    """Begin in this process, once; does nothing unless ``UNHANG_RUN`` names a records folder. Never raises."""
    global _begun_by  # noqa: PLW0603
    if "UNHANG_DRY_RUN" in os.environ:
        _begin_dry_run()
    if not os.environ.get("UNHANG_RUN") or _begun_by is not None:
        return
    _begun_by = os.getpid()
    try:
        if "RANK" in os.environ:
            from unhang.inprocess import birth

            birth.write(entered_by)
        import atexit

        from unhang.inprocess import targets

        atexit.register(_end)  # registered first, called last
        targets.watch_imports()
    except Exception as error:  # noqa: BLE001  the edge to the user's program
        from unhang.inprocess.trouble import tell

        tell("could not begin", error)


def _begin_dry_run() -> None:
    try:
        from unhang.inprocess import dry_run

        dry_run.begin()
    except Exception as error:  # noqa: BLE001  the edge to the user's program
        from unhang.inprocess.trouble import tell

        tell("no dry run", error)


def _end() -> None:
    arming = sys.modules.get("unhang.inprocess.arming")
    if arming is not None:
        arming.end()


def from_torch() -> None:
    """The ``torch.backends`` entry point: called at the end of ``import torch`` wherever unhang is installed.

    Does nothing unless ``UNHANG_RUN`` is set; torch would turn an exception into an ImportError, so there is none.
    """
    begin("torch")
