"""``run.json``: what the user asked for and what was started."""

from __future__ import annotations

import msgspec

RUN_SCHEMA = "unhang.run/1"


class RunPlan(msgspec.Struct):
    """What the user asked for and what was started; ``run.json`` in the run folder.

    ``slow_after_s``: how long one rank may work alone while others wait before that is said (None: as
    ``stall_episode.patience_limits_s`` thinks); ``abort_slow_after_s``:
    when ``on_hang`` is ``abort``, after so long even a laggard that works is ended (None: never).
    """

    schema: str = RUN_SCHEMA
    command: list[str] = []
    records: str = ""
    on_hang: str = "report"
    on_hang_exec: str = ""
    slow_after_s: float | None = None
    abort_slow_after_s: float | None = None
    capture: bool = False
    metrics: str = ""
    """Where to serve measures; empty: nowhere."""
    metrics_open: bool = False
    """Serve them, on loopback, to whoever asks."""
    nodes_via: str = ""
    """Where the watchers of several nodes meet; empty: where the launcher's settings tell."""
    started_s: float = 0.0
    front_pid: int = 0
    job_pid: int = 0
    cwd: str = ""
    """Where the command was started."""
    width: int = 80
    lang: str = "en"

    def json(self) -> bytes:
        """As it is written."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"
