"""Run the real command line as a user would: in a process of its own, with a limit."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

LIMIT_S = 100.0


def unhang(
    *words: str | Path,
    folder: Path | None = None,
    standard_input: bytes | None = None,
    environment: Mapping[str, str] | None = None,
    limit_s: float = LIMIT_S,
) -> subprocess.CompletedProcess[str]:
    """``unhang WORDS…``; output as text. Raises TimeoutExpired after ``limit_s``."""
    run = subprocess.run(
        [sys.executable, "-c", "from unhang.cli.main import main; main()", *map(str, words)],
        cwd=folder,
        input=standard_input if standard_input is not None else b"",
        env={**os.environ, "LC_ALL": "C.UTF-8", "NO_COLOR": "1", **(environment or {})},
        capture_output=True,
        timeout=limit_s,
        check=False,
    )
    return subprocess.CompletedProcess(
        run.args, run.returncode, run.stdout.decode("utf-8", "replace"), run.stderr.decode("utf-8", "replace")
    )
