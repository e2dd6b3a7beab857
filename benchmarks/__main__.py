"""``make bench``: the measurements whose tables stand in docs/benchmarks.md."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from benchmarks import flight_recorder


def main() -> int:
    """Dumps beside torchfrtrace and pickle.load, with the whole command; options are passed on."""
    unhang = Path(sys.executable).with_name("unhang")
    diagnose = f"{shlex.quote(str(unhang))} diagnose {{dir}} --format json"
    sys.argv[1:1] = ["--diagnose", diagnose]
    return flight_recorder.main()


if __name__ == "__main__":
    raise SystemExit(main())
