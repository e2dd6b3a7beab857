"""``python -m unhang.history add`` keeps the run that standard input tells of; ``… guilty`` lists hosts and cards.

Processes of their own: a home that does not answer holds no watcher up.
"""

from __future__ import annotations

import os
import sys

import msgspec

from unhang.errors import UnhangError
from unhang.history.database import history_path, open_history
from unhang.history.run import RunEnding, run_from_folder
from unhang.wire.documents.earlier_verdicts import suspect_listing


def main(words: list[str]) -> int:
    """Do what the first word says."""
    path = history_path(os.environ)
    try:
        if words == ["add"]:
            ending = msgspec.json.decode(sys.stdin.buffer.read(), type=RunEnding)
            with open_history(path, to_write=True) as history:
                history.add(run_from_folder(ending))
            return 0
        if words == ["guilty"]:
            with open_history(path) as history:
                sys.stdout.write(suspect_listing(history.guilty()).decode())
            return 0
    except UnhangError as error:
        print(error, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
