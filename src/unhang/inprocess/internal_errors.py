"""What went wrong with us in this process: one line in a file beside the registration, never an exception."""

from __future__ import annotations

import os
import time

_LIMIT = 20
_logged: set[str] = set()


def restart_attempt() -> int:
    """The restart attempt of this job, 0 where no launcher counts them."""
    return environment_number("TORCHELASTIC_RESTART_COUNT", 0)


def environment_number(name: str, missing: int = -1) -> int:
    """The environment variable ``name`` as a number, ``missing`` where it is none."""
    try:
        return int(os.environ.get(name, ""))
    except ValueError:
        return missing


def log_internal_error(what: str, error: BaseException | None = None) -> None:
    """Leave a line, once a sentence and at most twenty a process. Silent where even that is impossible."""
    if what in _logged or len(_logged) >= _LIMIT:
        return
    _logged.add(what)
    try:
        folder = os.environ.get("UNHANG_RUN")
        if not folder:
            return
        line = f"{time.time():.3f} {what}" + (f": {type(error).__name__}{_words(error)}" if error is not None else "")
        path = f"{folder}/births/{restart_attempt()}.{os.getpid()}.log"
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(file, " ".join(line.split())[:1000].encode("utf-8", "backslashreplace") + b"\n")
        finally:
            os.close(file)
    except Exception:  # noqa: BLE001, S110  there is nowhere left to say it
        pass


def _words(error: BaseException) -> str:
    """What ``error`` says, without secrets; nothing where they cannot be removed."""
    try:
        from unhang.secrets import without_secrets

        return f": {without_secrets(str(error)[:4000])}"
    except Exception:  # noqa: BLE001  half removed, or no memory
        return ""


def reset_log() -> None:
    """A forked child tells its own troubles."""
    _logged.clear()
