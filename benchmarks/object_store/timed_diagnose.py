"""``unhang diagnose`` with two clocks beside each phase, the wall's and its own processor time, written to FILE.

python -m benchmarks.object_store.timed_diagnose FILE PATH… [OPTIONS]
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

_PHASES = (
    ("listing", "unhang.evidence.inputs", "find_files"),
    ("listing and reading", "unhang.evidence.inputs", "read_evidence"),
    ("reasoning", "unhang.cli.diagnosing", "_reason"),
)


def main() -> None:
    """Put a clock around each phase, then be ``unhang diagnose``."""
    into, words = Path(sys.argv[1]), sys.argv[2:]
    took: dict[str, tuple[float, float]] = {}
    for phase, module, name in _PHASES:
        _time(importlib.import_module(module), name, phase, took)
    sys.argv = ["unhang", "diagnose", *words]
    from unhang.cli.main import main as unhang

    try:
        unhang()
    finally:
        into.write_text(json.dumps(took))


def _time(module: Any, name: str, phase: str, took: dict[str, tuple[float, float]]) -> None:
    timed = getattr(module, name)

    def around(*arguments: Any, **options: Any) -> Any:
        begun, spent = time.monotonic(), time.process_time()
        try:
            return timed(*arguments, **options)
        finally:
            before = took.get(phase, (0.0, 0.0))
            took[phase] = before[0] + time.monotonic() - begun, before[1] + time.process_time() - spent

    setattr(module, name, around)


if __name__ == "__main__":
    main()
