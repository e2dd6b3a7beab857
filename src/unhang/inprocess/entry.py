"""Both ways in meet here: the start-up hook on PYTHONPATH, and ``unhang.pth`` beside the installed package.

The second is for jobs whose scripts set a PYTHONPATH of their own. It is no entry point of torch's (``torch.backends``)
because ``import torch`` fails for everybody where such an entry point cannot be loaded: half removed, half upgraded.

At start there is only a registration and a finder that waits for torch.distributed to be imported: no thread, no
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
        try:
            from unhang.inprocess import dry_run

            dry_run.begin()
        except Exception as error:  # noqa: BLE001  the edge to the user's program
            _tell("no dry run", error)
    if not os.environ.get("UNHANG_RUN") or _begun_by is not None:
        return
    _begun_by = os.getpid()
    try:
        _begin(entered_by)
    except Exception as error:  # noqa: BLE001  the edge to the user's program
        _tell("could not begin", error)


def _begin(entered_by: str) -> None:
    if "RANK" in os.environ:
        from unhang.inprocess import process_registration

        process_registration.register_process(entered_by)
    import atexit

    from unhang.inprocess import patched_functions

    atexit.register(_end)  # registered first, called last
    patched_functions.watch_imports()


def _tell(what: str, error: Exception) -> None:
    try:
        from unhang.inprocess.internal_errors import log_internal_error

        log_internal_error(what, error)
    except Exception:  # noqa: BLE001, S110  half of us is gone: nothing is left to say it with
        pass


def _end() -> None:
    arming = sys.modules.get("unhang.inprocess.activation")
    if arming is not None:
        arming.end()


def from_torch() -> None:
    """The ``torch.backends`` entry point of earlier installations, whose metadata may outlive their code."""
    begin("torch")
