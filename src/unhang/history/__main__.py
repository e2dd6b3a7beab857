"""``python -m unhang.history add`` keeps the run that standard input tells of; ``… guilty`` lists hosts and cards.

Processes of their own: a home or a server that does not answer holds no watcher up. ``add`` prints what it has come to:
``beside`` once the run lies beside the history, ``kept`` once it is in it. It may be ended at any moment.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from unhang.errors import UnhangError
from unhang.history.place import HistoryPlace, history_place
from unhang.history.run import RunEnding, run_from_folder
from unhang.history.unsent import OLDER_S, UnsentRun, keep_unsent, read_unsent, waiting
from unhang.wire.documents.earlier_verdicts import suspect_listing

WRITE_LIMIT_S = 1.0


def main(words: list[str]) -> int:
    """Do what the first word says."""
    try:
        place = history_place(os.environ)
        if words == ["add"]:
            loading = threading.Thread(target=_load, args=(place,), daemon=True)
            loading.start()
            ending = msgspec.json.decode(sys.stdin.buffer.read(), type=RunEnding)
            unsent, path = keep_unsent(place, run_from_folder(ending))
            if path is not None:
                print("beside", flush=True)
            loading.join()
            _send(place, unsent, path)
            return 0
        if words == ["guilty"]:
            from unhang.history.database import open_history

            with open_history(place) as history:
                sys.stdout.write(suspect_listing(history.guilty()).decode())
            return 0
    except UnhangError as error:
        print(error, file=sys.stderr)
    return 2


def _load(place: HistoryPlace) -> None:
    """What sending needs, while whoever started us has nothing to tell yet."""
    with suppress(ImportError):  # said when it is used
        import unhang.history.database  # noqa: F401

        if place.url:
            import psycopg  # noqa: F401


def _send(place: HistoryPlace, unsent: UnsentRun, path: Path | None) -> None:
    """This run first, then those that wait, while there is time."""
    from sqlalchemy.exc import DataError

    from unhang.history.database import open_history

    with open_history(place, to_write=True, limit_s=WRITE_LIMIT_S) as history:
        history.add(unsent.run, unsent.id)
        if path is not None:
            path.unlink(missing_ok=True)
        print("kept", flush=True)
        deadline = time.monotonic() + OLDER_S
        for older in waiting(place):
            found = read_unsent(older)
            if found is None:
                continue
            with suppress(DataError, OverflowError):  # numbers that no column takes: it will never go
                history.add(found.run, found.id)
            older.unlink(missing_ok=True)
            if time.monotonic() > deadline:
                return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
