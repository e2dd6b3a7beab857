"""How time, phases and the head's memory grow with ranks: the dumps and short logs of up to 16,384 of them."""

from __future__ import annotations

import argparse
import os
import shutil
from contextlib import nullcontext
from pathlib import Path

from benchmarks.object_store.answers import URL, Answer, diagnose, with_engine
from benchmarks.object_store.cluster import dask_cluster, environment_for, s3_server
from benchmarks.object_store.evidence import BUCKET, Shape, write_evidence

_DISTINCT = 64


def growth(scratch: Path, options: argparse.Namespace) -> None:
    """The table over ranks: ``options.workers[0]`` Dask workers, or this machine's own with 0."""
    print("\n### Over ranks (beyond 64 hard links to the first 64, objects of their own to the store)\n")
    print("Seconds by the clock, in brackets of the head's processor time.\n")
    print("| ranks | GB | time | listing | reading | reasoning | head, MiB | verdict |")
    print("|---:|---:|---:|---:|---:|---:|---:|---|", flush=True)
    for ranks in options.growth:
        root = scratch / f"store-{ranks}"
        shape = Shape(ranks, int(options.log_mb * 1e6), options.entries, cause="late", distinct=_DISTINCT)
        size = write_evidence(root / BUCKET, shape)
        with s3_server(root) as server:
            environment = environment_for(server)
            workers = options.workers[0]
            with dask_cluster(workers, scratch, environment) if workers else nullcontext() as cluster:
                engine = with_engine("dask", cluster) if cluster else with_engine("local")
                answer = diagnose(URL, scratch, environment, *engine, limit_s=options.limit)
        _row(ranks, size, answer)
        shutil.rmtree(root)
    print(f"\nload: {os.getloadavg()[0]:.1f}", flush=True)


def _row(ranks: int, size: int, answer: Answer) -> None:
    ended, none = answer.ended, (0.0, 0.0)
    listing, reasoning = (answer.phases.get(phase, none) for phase in ("listing", "reasoning"))
    both = answer.phases.get("listing and reading", none)
    reading = both[0] - listing[0], both[1] - listing[1]
    spent = " | ".join(f"{clock:.1f} ({processor:.1f})" for clock, processor in (listing, reading, reasoning))
    told = answer.lead if answer.verdict else ended.err[-200:]
    whole = f"{ended.clock_s:.1f} ({ended.processor_s:.1f})"
    print(f"| {ranks:,} | {size / 1e9:.2f} | {whole} | {spent} | {ended.mib:.0f} | {told} |", flush=True)
