"""A history of a cluster: what recording a run and "which host again" take, beside a million runs.

    python -m benchmarks history [--runs 1000000] [--hosts 1000] [--connections 200] [--each 10] [--postgresql URL]

Without ``--postgresql`` a server of its own is started and removed (tests/history/postgres_server.py; it may lose its
last writes when the machine fails, as ``fsync`` is off). Runs are made by the database itself, spread over 30 days:
four of the hosts take part in each, and one of fifty has a verdict that names one of them. ``--connections`` are open
at once, from four processes on this machine; each records ``--each`` runs as the watcher's process does.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path

from unhang.errors import UnhangError
from unhang.history.database import open_history
from unhang.history.opening import open_connection
from unhang.history.place import HistoryPlace, history_place
from unhang.history.run import PastRun, RunFinding

PROCESSES = 4
PER_RUN = 4
WINDOW_S = 30 * 86_400
NAMED_IN = 50
_NUMBERS = """
WITH RECURSIVE tens(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM tens WHERE n < 999),
numbers(n) AS (SELECT a.n * 1000 + b.n + 1 FROM tens a CROSS JOIN tens b)
"""
_RUNS = """
INSERT INTO runs
(number, folder, command, cwd, program, started_s, ended_s, outcome, hosts, world_size, steps, settings)
{numbers} SELECT n, '/runs/' || n, 'torchrun train.py', '/home/ml', '/home/ml train.py', {start} + n * {pace} - 600,
{start} + n * {pace}, CASE WHEN n % {named} = 0 THEN 'stalled' ELSE 'good' END, '["h1"]', 32, 1000, '{{}}'
FROM numbers WHERE n <= {runs}
"""
_VERDICTS = """
INSERT INTO verdicts (run, cause, certainty, status, ranks, nodes, cards, place, sentence, position)
SELECT number, 'gpu-hardware', 'likely', 'hang', '[3]', '["h1"]', '[]', 't.py:5', 'it failed', 0 FROM runs
WHERE outcome = 'stalled'
"""
_TOOK_PART = """
INSERT INTO took_part (run, kind, name, host, cause, ended_s)
SELECT number, 'host', 'h' || ((number * 7 + places.at) % {hosts}), 'h' || ((number * 7 + places.at) % {hosts}),
CASE WHEN number % {named} = 0 AND places.at = number / {named} % {per_run} THEN 'gpu-hardware' END, ended_s
FROM runs CROSS JOIN (SELECT 0 AS at UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS places
"""


def fill(place: HistoryPlace, runs: int, hosts: int) -> float:
    """Make the runs; returns seconds."""
    began = time.monotonic()
    start, pace = time.time() - WINDOW_S + 3600, (WINDOW_S - 3600) / max(1, runs)
    values = {"numbers": _NUMBERS, "runs": runs, "hosts": hosts, "named": NAMED_IN, "per_run": PER_RUN}
    with open_connection(place, to_write=True, limit_s=3600) as connection:
        for statement in (_RUNS, _VERDICTS, _TOOK_PART):
            connection.exec_driver_sql(
                statement.format(**values, start=start, pace=pace).replace("%", "%%" if place.url else "%")
            )
        if place.url:
            connection.exec_driver_sql("SELECT setval(pg_get_serial_sequence('runs', 'number'), max(number)) FROM runs")
        connection.commit()
        connection.exec_driver_sql("ANALYZE")
        connection.commit()
    return time.monotonic() - began


def writer(place: HistoryPlace, threads: int, each: int) -> tuple[list[float], list[float], int]:
    """(seconds of whole recordings, of the transactions in them, how many failed) of ``threads`` at once."""
    told = RunFinding("gpu-hardware", "likely", "hang", (3,), ("h7",), (), "t.py:5", "it failed")
    run = PastRun("/r", "torchrun t.py", "/", time.time() - 9, time.time(), "stalled", tuple(f"h{n}" for n in range(4)),
                  verdicts=(told,))  # fmt: skip
    whole: list[float] = []
    parts: list[float] = []
    failed: list[str] = []
    together = threading.Barrier(threads)

    def record() -> None:
        together.wait(60)
        for _ in range(each):
            began = time.monotonic()
            try:
                with open_history(place, to_write=True, limit_s=10.0) as history:
                    opened = time.monotonic()
                    history.add(run)
                    parts.append(time.monotonic() - opened)
                whole.append(time.monotonic() - began)
            except UnhangError as error:
                failed.append(str(error))

    started = [threading.Thread(target=record) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if failed:
        print(f"   failed: {failed[0]}", file=sys.stderr)
    return whole, parts, len(failed)


def reader(place: HistoryPlace, times: int) -> list[float]:
    """Seconds of "which host again" over 30 days."""
    took = []
    for _ in range(times):
        began = time.monotonic()
        with open_history(place) as history:
            history.suspects(30)
        took.append(time.monotonic() - began)
    return took


def row(what: str, seconds: Sequence[float]) -> str:
    """A row of the table, in milliseconds."""
    if not seconds:
        return f"| {what} | 0 | – | – |"
    p99 = sorted(seconds)[max(0, int(len(seconds) * 0.99) - 1)] if len(seconds) > 99 else max(seconds)
    return f"| {what} | {len(seconds)} | {statistics.median(seconds) * 1000:,.0f} | {p99 * 1000:,.0f} |"


def measure(name: str, place: HistoryPlace, options: argparse.Namespace) -> None:
    """Print what one database takes."""
    print(f"{name}: {options.runs:,} runs made in {fill(place, options.runs, options.hosts):.0f} s", flush=True)
    print("| ms | times | median | p99 or most |\n|---|---|---|---|")
    print(row("which host again, 30 days", reader(place, options.reads)), flush=True)
    for connections in (1, options.connections):
        processes = min(PROCESSES, connections)
        each = options.each * (10 if connections == 1 else 1)
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            work = [pool.submit(writer, place, connections // processes, each) for _ in range(processes)]
            answers = [one.result(timeout=600) for one in work]
        failed = sum(answer[2] for answer in answers)
        label = f"{connections} at once" + (f", {failed} refused" if failed else "")
        print(row(f"a run recorded, {label}", [each for answer in answers for each in answer[0]]))
        print(row(f"its transaction, {label}", [each for answer in answers for each in answer[1]]), flush=True)


def main(words: list[str]) -> int:
    """Both databases, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks history")
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=1_000)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--each", type=int, default=10)
    parser.add_argument("--reads", type=int, default=20)
    parser.add_argument("--postgresql", default="")
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    options = parser.parse_args(words)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="history-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        if options.only != "sqlite":
            url = options.postgresql
            if not url:
                from tests.history.postgres_server import PostgresServer

                server = PostgresServer()
                stack.callback(server.end)
                url = server.url(server.new_database())
            measure("PostgreSQL", history_place({"XDG_STATE_HOME": str(folder)}, url), options)
        if options.only != "postgresql":
            measure("SQLite", history_place({"XDG_STATE_HOME": str(folder)}), options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
