"""``make bench``: the measurements whose tables stand in docs/benchmarks.md; of logs with ``ARGS=logs``,
of a corpus with ``ARGS="corpus --folder DIR"``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from benchmarks import corpus, flight_recorder, logs


def main() -> int:
    """Dumps beside torchfrtrace and pickle.load, and the whole command; ``logs``; ``corpus``. Options are passed on."""
    if sys.argv[1:2] == ["logs"]:
        return logs.main(sys.argv[2:])
    if sys.argv[1:2] == ["corpus"]:
        return corpus.main(sys.argv[2:])
    unhang = Path(sys.executable).with_name("unhang")
    diagnose = f"{shlex.quote(str(unhang))} diagnose {{dir}} --format json"
    sys.argv[1:1] = ["--diagnose", diagnose]
    return flight_recorder.main()


if __name__ == "__main__":
    raise SystemExit(main())
