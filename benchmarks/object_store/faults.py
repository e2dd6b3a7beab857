"""What breaks in mid-run: a worker is killed, an object is removed, the server stops or crawls for a while."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.object_store.answers import URL, Answer, diagnose, with_engine
from benchmarks.object_store.cluster import Cluster, Endpoint, dask_cluster, environment_for, s3_server, slow_link
from benchmarks.object_store.evidence import Store

_PAUSE_S = 15.0


@dataclass(frozen=True, slots=True)
class Running:
    """What a fault can get at while a job's evidence is read."""

    store: Store
    server: Endpoint
    link: Endpoint
    cluster: Cluster


Fault = Callable[[Running, float, float], None]
"""Called with (what runs, seconds since the start, seconds after which it is to happen), again and again."""


def faults(store: Store, scratch: Path, options: argparse.Namespace) -> None:
    """The table of faults, beside the same run without one."""
    workers = max(options.workers)
    rate, size = f"{options.rate} MB/s a connection", f"{store.size / 1e9:.2f} GB"
    print(f"\n### Faults in mid-run: {size}, {workers} Dask workers, {rate}\n")
    print("| fault | time, s | verdict | same as without | what it says is missing |")
    print("|---|---:|---|---|---|", flush=True)
    with (
        s3_server(store.root) as server,
        slow_link(server, scratch, rate=options.rate, delay=options.delay) as link,
    ):
        whole = _row("none", None, Running(store, server, link, Cluster("", 0, ())), scratch, options, None)
        at_s = whole.ended.clock_s / 2
        for name, fault in _FAULTS.items():
            running = Running(store, server, link, Cluster("", 0, ()))
            with _kept(store.folder / "logs" / _VICTIM, scratch / "aside"):
                _row(name, lambda run, now, f=fault: f(run, now, at_s), running, scratch, options, whole)  # type: ignore[misc]


def _row(
    name: str,
    fault: Callable[[Running, float], None] | None,
    running: Running,
    scratch: Path,
    options: argparse.Namespace,
    whole: Answer | None,
) -> Answer:
    environment = environment_for(running.link, one_connection=True)
    with dask_cluster(max(options.workers), scratch, environment) as cluster:
        now = Running(running.store, running.server, running.link, cluster)
        engine = with_engine("dask", cluster)
        hear = None if fault is None else lambda took: fault(now, took)
        answer = diagnose(URL, scratch, environment, *engine, limit_s=options.limit, meanwhile=hear)
    same = "" if whole is None else "yes" if answer.same_as(whole) else "no"
    missing = _missing(answer) or ("" if answer.verdict else answer.ended.err[-200:])
    print(f"| {name} | {answer.ended.clock_s:.1f} | {answer.lead} | {same} | {missing} |", flush=True)
    return answer


def _missing(answer: Answer) -> str:
    unread = answer.verdict.get("unread", [])
    return "; ".join(str(one) for one in unread[:2]) + (f"; {len(unread) - 2} more" if len(unread) > 2 else "")


_VICTIM = "rank_7.log"
"""Removed in mid-run: one of the last of the list by its name, so likely not read yet."""


@contextmanager
def _kept(path: Path, aside: Path) -> Iterator[None]:
    """``path`` is there again afterwards; meanwhile it has a second name ``aside``."""
    os.link(path, aside)
    try:
        yield
    finally:
        aside.replace(path)
        aside.unlink(missing_ok=True)  # a name linked to the same file is left by a rename


def _kill_worker(running: Running, now: float, at_s: float) -> None:
    if now >= at_s:
        with suppress(ProcessLookupError):
            os.kill(running.cluster.workers[0], signal.SIGKILL)


def _remove_object(running: Running, now: float, at_s: float) -> None:
    if now >= at_s / 2:
        (running.store.folder / "logs" / _VICTIM).unlink(missing_ok=True)


def _stop_server(running: Running, now: float, at_s: float) -> None:
    os.kill(running.server.pid, signal.SIGSTOP if at_s <= now < at_s + _PAUSE_S else signal.SIGCONT)


def _crawl(running: Running, now: float, at_s: float) -> None:
    os.kill(running.link.pid, signal.SIGUSR1 if at_s <= now < at_s + _PAUSE_S else signal.SIGUSR2)


_FAULTS: dict[str, Fault] = {
    "a worker killed half-way": _kill_worker,
    f"`{_VICTIM}` removed after the list": _remove_object,
    f"the server stopped for {_PAUSE_S:.0f} s": _stop_server,
    f"each connection at 50 kB/s for {_PAUSE_S:.0f} s": _crawl,
}
