"""NCCL's lines of the start go to a file beside our records, where nobody decided about NCCL's debug output.

NCCL says nothing by default. At ``INFO`` and of these subsystems it writes some tens of lines for each communicator as
that is made, and none for a collective: which network and which way between each two cards it chose. It opens the file
at its first line; should that fail, it would print instead, so nothing is set where a file cannot be made.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from unhang.wire.process_registration import NCCL_LOG_FOLDER

ENABLE_VARIABLE = "UNHANG_NCCL_LINES"
"""``off``: none of this."""
SUBSYSTEMS = "INIT,ENV"
MIN_FREE_BYTES = 16 << 20
"""Bytes that must be free where the records are."""
_CONF_BYTES = 1 << 16


def enable_startup_log(rank: int | None, backend: str) -> None:
    """Set NCCL's variables in this process, which is about to make its first group."""
    records = os.environ.get("UNHANG_RUN", "")
    if rank is None or rank < 0 or not records or "%" in records:
        return  # NCCL replaces %h and %p in the name
    if os.environ.get(ENABLE_VARIABLE, "").lower() in ("off", "0", "no") or (backend and "nccl" not in backend.lower()):
        return
    if not _has_nccl() or _is_configured_by_user():
        return
    folder = f"{records}/{NCCL_LOG_FOLDER}"
    with suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
        space = os.statvfs(folder)
        if space.f_bavail * space.f_frsize < MIN_FREE_BYTES:
            return
        trial = f"{folder}/.rank_{rank}.{os.getpid()}"
        os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        os.unlink(trial)  # noqa: PTH108
        os.environ["NCCL_DEBUG_SUBSYS"] = SUBSYSTEMS
        os.environ["NCCL_DEBUG_FILE"] = f"{folder}/rank_{rank}.%h.%p.log"
        os.environ["NCCL_DEBUG"] = "INFO"


def _has_nccl() -> bool:
    """A torch for NVIDIA's or AMD's cards."""
    version = getattr(sys.modules.get("torch"), "version", None)
    return bool(getattr(version, "cuda", None) or getattr(version, "hip", None))


def _is_configured_by_user() -> bool:
    """In the environment, or in one of NCCL's own files, which never overrule the environment."""
    if any(name.startswith("NCCL_DEBUG") for name in os.environ):
        return True
    own = os.environ.get("NCCL_CONF_FILE") or f"{os.environ.get('HOME', '')}/.nccl.conf"
    for path in ("/etc/nccl.conf", own):
        with suppress(OSError), open(path, "rb") as file:  # noqa: PTH123
            if b"NCCL_DEBUG" in file.read(_CONF_BYTES):
                return True
    return False
