"""Time and speed-up over workers, behind links of 20 MB/s; without limits, processor seconds a GB beside ``local``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from benchmarks.object_store.answers import URL, Answer, diagnose, with_engine
from benchmarks.object_store.cluster import Endpoint, dask_cluster, environment_for, s3_server, slow_link
from benchmarks.object_store.evidence import Store
from benchmarks.object_store.processes import most_mib, processor_s


def limited(store: Store, scratch: Path, options: argparse.Namespace) -> None:
    """The table of speed-up; every worker has one connection."""
    print(f"\n### {options.rate} MB/s and {options.delay} ms for each connection, {store.size / 1e9:.2f} GB\n")
    print("| Dask workers, one connection each | time, s | MB/s | speed-up | head's memory, MiB | verdict |")
    print("|---:|---:|---:|---:|---:|---|", flush=True)
    first: float | None = None
    with (
        s3_server(store.root) as server,
        slow_link(server, scratch, rate=options.rate, delay=options.delay) as link,
    ):
        for workers in options.workers:
            answer, _ = _with_workers(workers, link, scratch, options.limit)
            took, told = answer.ended.clock_s, answer.lead if answer.verdict else answer.ended.err[-200:]
            first = took * options.workers[0] if first is None else first
            print(
                f"| {workers} | {took:.1f} | {store.size / 1e6 / took:.1f} | {first / took:.2f} "
                f"| {answer.ended.mib:.0f} | {told} |",
                flush=True,
            )


def unlimited(store: Store, scratch: Path, options: argparse.Namespace) -> None:
    """The table of processor seconds a GB, and the clock beside ``local`` on the same files."""
    gigabytes = store.size / 1e9
    local = diagnose(str(store.folder), scratch, environment_for(None), limit_s=options.limit)
    print(f"\n### No limits, {gigabytes:.2f} GB\n")
    print("| | time, s | processor s a GB: server | workers | scheduler | head | head, MiB | a worker, MiB | same |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---|")
    _row("files, `--engine local`", local, gigabytes, ("", "", ""), "", local)
    with s3_server(store.root) as server:
        before = processor_s([server.pid])
        alone = diagnose(URL, scratch, environment_for(server), *with_engine("local"), limit_s=options.limit)
        of_server = (processor_s([server.pid]) - before) / gigabytes
        _row("objects, `--engine local`", alone, gigabytes, (f"{of_server:.2f}", "", ""), "", local)
        for workers in options.workers:
            before = processor_s([server.pid])
            answer, used = _with_workers(workers, server, scratch, options.limit)
            of_server = (processor_s([server.pid]) - before) / gigabytes
            spent = (f"{of_server:.2f}", f"{used[0] / gigabytes:.2f}", f"{used[1] / gigabytes:.2f}")
            _row(f"objects, Dask, {workers} workers", answer, gigabytes, spent, f"{used[2]:.0f}", local)
    print(f"\nload: {os.getloadavg()[0]:.1f}", flush=True)


def _row(
    name: str, answer: Answer, gigabytes: float, spent: tuple[str, str, str], worker_mib: str, local: Answer
) -> None:
    ended = answer.ended
    same = "yes" if answer.same_as(local) else f"no: {answer.lead} {ended.err[-200:].strip()}"
    print(
        f"| {name} | {ended.clock_s:.1f} | {' | '.join(spent)} | {ended.processor_s / gigabytes:.2f} | {ended.mib:.0f} "
        f"| {worker_mib} | {same} |",
        flush=True,
    )


def _with_workers(
    workers: int, server: Endpoint, scratch: Path, limit_s: float
) -> tuple[Answer, tuple[float, float, float]]:
    """An answer by so many workers; processor seconds of them and of the scheduler, a worker's most MiB."""
    environment = environment_for(server, one_connection=True)
    with dask_cluster(workers, scratch, environment) as cluster:
        before = processor_s(cluster.workers), processor_s([cluster.scheduler])
        answer = diagnose(URL, scratch, environment, *with_engine("dask", cluster), limit_s=limit_s)
        used = processor_s(cluster.workers) - before[0], processor_s([cluster.scheduler]) - before[1]
        return answer, (*used, most_mib(cluster.workers))
