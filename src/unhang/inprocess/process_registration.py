"""The registration: a Python process with RANK set has started. Read back by ``wire.process_registration``.

Written with what is loaded anyway (no json, no pathlib): this runs at the start of every Python process of the job.
"""

from __future__ import annotations

import _thread
import os
import sys
import time

from unhang.inprocess.internal_errors import environment_number, log_internal_error, restart_attempt


def _quoted(text: str) -> str:
    try:
        from _json import encode_basestring_ascii
    except ImportError:
        from json.encoder import encode_basestring_ascii
    return encode_basestring_ascii(text)


def register_process(entered_by: str, *, rank: int | None = None, world_size: int | None = None) -> None:
    """Leave the registration of this process, once; a second call changes nothing. Never raises.

    ``rank`` and ``world_size`` are those a rank told init_process_group where its environment has none.
    """
    folder = os.environ.get("UNHANG_RUN")
    if not folder:
        return
    said: dict[str, int | float | str] = {
        "pid": os.getpid(),
        "ppid": os.getppid(),
        "rank": environment_number("RANK") if rank is None else rank,
        "local_rank": environment_number("LOCAL_RANK"),
        "world_size": environment_number("WORLD_SIZE") if world_size is None else world_size,
        "attempt": restart_attempt(),
        "host": os.environ.get("UNHANG_NODE_NAME") or os.uname().nodename,
        "argv0": _program(),
        "started_s": time.time(),
        "entered_by": entered_by,
    }
    text = ", ".join(f'"{name}": {_quoted(value) if isinstance(value, str) else value}' for name, value in said.items())
    try:
        name = f"{restart_attempt()}.{os.getpid()}.json"
        if not os.path.exists(f"{folder}/births/{name}"):  # noqa: PTH110  pathlib is not loaded at start-up
            write_atomically(f"{folder}/births", name, f"{{{text}}}\n".encode())
    except OSError as error:
        log_internal_error("no birth record", error)


def _program() -> str:
    """The script or module this process was started for; at start-up ``sys.argv`` is not there yet."""
    words = getattr(sys, "argv", None) or sys.orig_argv[1:] or [""]
    for word in words:
        if word == "-c" or not word.startswith("-"):
            return word[:1000]  # behind -c stands a whole program, with whatever it says
    return words[0][:1000] if words else ""


def write_atomically(folder: str, name: str, data: bytes) -> None:
    """Write ``data`` aside and move it in place, so that nobody reads half of it. Private to the user. Raises OSError.

    The thread that falls and ours may write one dump at a time.
    """
    aside = f"{folder}/.{name}.{os.getpid()}.{_thread.get_ident()}"
    file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(file, rest) :]
    except OSError:
        os.unlink(aside)  # noqa: PTH108
        raise
    finally:
        os.close(file)
    os.replace(aside, f"{folder}/{name}")  # noqa: PTH105
