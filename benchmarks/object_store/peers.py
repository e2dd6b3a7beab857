"""What one would do without it: fetch everything, then diagnose; or search the known words with a Dask bag."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from benchmarks.object_store.answers import diagnose
from benchmarks.object_store.cluster import dask_cluster, environment_for, s3_server, slow_link
from benchmarks.object_store.evidence import BUCKET, Store
from benchmarks.object_store.processes import processor_s, run
from tests.object_server import rclone

_BAG = """
import json, re, sys, time
from distributed import Client
import dask.bag
import fsspec

address, engine, words, limit = sys.argv[1], sys.argv[2], json.load(open(sys.argv[3])), int(sys.argv[4])

def searched(url):
    with fsspec.open(url, "rb") as file:
        data = file.read()
    literals = [word.encode() for word in words]
    if engine == "find":
        return {word: data.count(word) for word in literals if word in data}
    found = {}
    search = re.compile(b"|".join(map(re.escape, literals)))
    for line in data[:limit].splitlines():
        hit = search.search(line)
        if hit:
            found[hit[0]] = found.get(hit[0], 0) + 1
    return found

with Client(address) as client:
    urls = ["s3://" + path for path in fsspec.filesystem("s3").find("evidence/logs")]
    begun = time.monotonic()
    found = dask.bag.from_sequence(urls, npartitions=len(urls)).map(searched).compute()
    print(json.dumps({"s": time.monotonic() - begun, "urls": len(urls), "words": sum(map(len, found))}))
"""


def peers(store: Store, scratch: Path, options: argparse.Namespace) -> None:
    """The table of the peers behind the same links."""
    workers = max(options.workers)
    print(f"\n### Peers: {options.rate} MB/s, {options.delay} ms a connection, {workers} connections\n")
    print("| | time, s | processor s: client | workers | answer |")
    print("|---|---:|---:|---:|---|", flush=True)
    with (
        s3_server(store.root) as server,
        slow_link(server, scratch, rate=options.rate, delay=options.delay) as link,
    ):
        environment = environment_for(link)
        _copy_then_diagnose(workers, environment, scratch, options)
        for engine in options.bag:
            _bag(workers, engine, environment, scratch, options)


def _copy_then_diagnose(workers: int, environment: dict[str, str], scratch: Path, options: argparse.Namespace) -> None:
    into = scratch / "copied"
    remote = f":s3,provider=Other,env_auth=true,endpoint='{environment['AWS_ENDPOINT_URL']}':{BUCKET}"
    words = [rclone() or "rclone", "copy", remote, str(into), "--transfers", str(workers)]
    more = ["--config", str(scratch / "no-rclone.conf"), "--multi-thread-streams", "0", "--ignore-checksum"]
    copied = run([*words, *more], scratch, environment, limit_s=options.limit)
    answer = diagnose(str(into), scratch, environment, limit_s=options.limit)
    shutil.rmtree(into, ignore_errors=True)
    took, spent = copied.clock_s + answer.ended.clock_s, copied.processor_s + answer.ended.processor_s
    told = answer.lead if answer.verdict else copied.err[-200:] + answer.ended.err[-200:]
    name = f"`rclone copy` ({copied.clock_s:.1f} s), then diagnose"
    print(f"| {name} | {took:.1f} | {spent:.1f} | | {told} |", flush=True)


def _bag(workers: int, engine: str, environment: dict[str, str], scratch: Path, options: argparse.Namespace) -> None:
    """A bag that fetches every log whole and searches it; ``re`` in the first ``--re-kb`` of each only."""
    from unhang.knowledge.messages import load_messages

    literals = sorted({anchor for row in load_messages() for anchor in row.anchors})
    (scratch / "literals.json").write_text(json.dumps(literals))
    limit = options.re_kb * 1000
    with dask_cluster(workers, scratch, environment) as cluster:
        before = processor_s(cluster.workers)
        words = [sys.executable, "-c", _BAG, cluster.address, engine, str(scratch / "literals.json"), str(limit)]
        ended = run(words, scratch, environment, limit_s=options.limit)
        used = processor_s(cluster.workers) - before
    searched = f"the first {options.re_kb} kB of each log" if engine == "re" else "every log"
    name = f"Dask bag, {len(literals):,} literals with `{engine}`, {searched}"
    told = ended.out.strip() or f"no answer: {ended.err.strip()[-160:]}"
    print(f"| {name} | {ended.clock_s:.1f} | {ended.processor_s:.1f} | {used:.1f} | {told} |", flush=True)
