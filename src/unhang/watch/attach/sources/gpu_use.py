"""Card use, as ``nvidia-smi`` tells it."""

from __future__ import annotations

import shutil
import subprocess

LIMIT_S = 5.0
ANSWER_BYTES = 1 << 20


def nvidia_smi_output(*, limit_s: float = LIMIT_S) -> bytes | None:
    """Cards and the processes on them; None when there is no ``nvidia-smi``, or it does not answer (a card that fell
    off the bus can hold it up for minutes)."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    try:
        done = subprocess.run([program], capture_output=True, timeout=limit_s, check=False, stdin=subprocess.DEVNULL)
    except (subprocess.TimeoutExpired, OSError):
        return None
    return done.stdout[:ANSWER_BYTES] or None
