"""`python -m benchmarks.web_page`: what the page of `unhang view --web` costs, by number of ranks.

Chromium headless beside the server on the same machine; a state changes every second in every rank. First paint is
from the navigation to the frame in which every rank has its tile, and on to the last row of the series; grid and
timeline are one drawing; bytes are what crosses the socket; an answer is one that is not kept from before.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.report.report_browser import Browser
from tests.view import served as made
from tests.view.runs import document, run_folder
from tests.view.served import asked, keep, served
from unhang.view.web.responses import CACHE_S, ROWS_AT_ONCE
from unhang.wire.documents.live_state import STATES

SEEN = "return document.documentElement.dataset"
LONGEST_S = 60.0


def changed(state: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """A second later: other ranks wait, everybody is some steps further."""
    ranks = state["ranks"]
    count = len(ranks["rank"])
    state["at_s"] = time.time()
    ranks["step"] = [step + draw.randrange(3) for step in ranks["step"]]
    ranks["waits_s"] = [round(draw.random() * 3, 1) for _ in range(count)]
    ranks["step_s"] = [round(0.2 + draw.random() * 0.1, 4) for _ in range(count)]
    ranks["state"] = [draw.choice((STATES.index("busy"), STATES.index("waiting"))) for _ in range(count)]
    ranks["phase"] = [draw.choice((1, 2, 3)) for _ in range(count)]
    return state


def measured(browser: Browser, ranks: int, rows: int, seconds: float) -> list[str]:
    """One row of the table."""
    draw = random.Random(ranks)
    with tempfile.TemporaryDirectory() as name:
        run = run_folder(Path(name), changed(document(ranks), draw))
        if rows:
            made.STARTED_S = time.time() - rows
            made.series(run.path, ranks, rows)
        over = threading.Event()

        def live() -> None:
            state = document(ranks)
            while not over.wait(1.0):
                keep(run, changed(state, draw))

        with served(run.path) as server:
            begun = time.monotonic()
            browser.visit(server.address)
            while str(browser.run(SEEN).get("ranks")) != str(ranks):
                assert time.monotonic() - begun < LONGEST_S
            paint_s = time.monotonic() - begun
            while str(browser.run(SEEN).get("rows")) != str(rows * ranks):
                assert time.monotonic() - begun < LONGEST_S
            series_s = time.monotonic() - begun
            threading.Thread(target=live, daemon=True).start()
            times = []
            ends = time.monotonic() + seconds
            while time.monotonic() < ends:
                time.sleep(1.0)
                now = browser.run(SEEN)
                times.append((float(now["gridMs"]), float(now["timeMs"])))
            over.set()
            answers_s, packed = [], 0
            for _ in range(5):
                time.sleep(CACHE_S + 0.1)  # a later one would be the kept answer
                begun = time.monotonic()
                packed = len(asked(server, "/state.json", **{"Accept-Encoding": "gzip"})[1])
                answers_s.append(time.monotonic() - begun)
            timeline = sum(
                len(
                    asked(server, f"/timeline.json?generation=1&sites=1&rows={first}", **{"Accept-Encoding": "gzip"})[1]
                )
                for first in range(0, max(1, rows * ranks), ROWS_AT_ONCE)
            )
    return [
        f"{ranks:,}",
        f"{rows * ranks:,}",
        f"{paint_s:.2f} s",
        f"{series_s:.1f} s" if rows else "–",
        f"{statistics.median(grid for grid, _ in times):.0f} ms",
        f"{statistics.median(line for _, line in times):.0f} ms",
        f"{packed / 1024:.0f} KiB",
        f"{timeline / 1024:.0f} KiB" if rows else "–",
        f"{statistics.median(answers_s) * 1000:.0f} ms",
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    seconds = parser.parse_args().seconds
    print("| ranks | rows | first paint | all rows | grid | timeline | bytes a second | timeline, once | an answer |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as profile, Browser(Path(profile)) as browser:
        for ranks, rows in ((8, 900), (1_024, 16), (10_000, 0), (10_000, 20)):
            print("| " + " | ".join(measured(browser, ranks, rows, seconds)) + " |", flush=True)


if __name__ == "__main__":
    main()
