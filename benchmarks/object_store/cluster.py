"""What a measurement runs on, all on this machine: an S3 server, a slow link to it, a Dask cluster."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.object_store.processes import answers, started, until
from tests.object_server import serving
from tests.ports import free_port

ONE_CONNECTION = json.dumps({"config_kwargs": {"max_pool_connections": 1}})
"""What ``FSSPEC_S3`` takes, so that a process opens a single connection to its store."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where clients of S3 ask: a server, or a link to one. ``pid``: its process; ``environment``: what clients need."""

    port: int
    pid: int
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Dask cluster: where its scheduler listens; the processes of scheduler and workers, one thread each."""

    address: str
    scheduler: int
    workers: tuple[int, ...]


@contextmanager
def s3_server(root: Path) -> Iterator[Endpoint]:
    """Rclone shows each folder of ``root`` as a bucket; without hashes, for which it would read every file."""
    with serving(root, "--etag-hash", "", "--read-only", "--vfs-cache-mode", "off") as server:
        yield Endpoint(server.port, server.process.pid, server.environment)


@contextmanager
def slow_link(server: Endpoint, scratch: Path, *, rate: float = 0, delay: float = 0) -> Iterator[Endpoint]:
    """A link to ``server``: MB/s for each connection, ms for each request. Requests stand in ``scratch/requests``."""
    log = scratch / "link.log"
    log.unlink(missing_ok=True)
    words = [
        *(sys.executable, "-m", "benchmarks.object_store.slow_links", "--to", str(server.port)),
        *("--rate", str(rate), "--delay", str(delay), "--log", str(scratch / "requests")),
    ]
    with started(words, log, os.environ) as process:
        until(lambda: log.read_text().strip().isdigit(), "the slow link")
        port = int(log.read_text())
        yield Endpoint(port, process.pid, {**server.environment, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"})


def environment_for(endpoint: Endpoint | None, *, one_connection: bool = False) -> dict[str, str]:
    """The environment of a command, a client of ``endpoint`` where there is one."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = {"OMP_NUM_THREADS": "1", **(endpoint.environment if endpoint is not None else {})}
    return kept | own | ({"FSSPEC_S3": ONE_CONNECTION} if one_connection else {})


@contextmanager
def dask_cluster(workers: int, scratch: Path, environment: Mapping[str, str]) -> Iterator[Cluster]:
    """A scheduler and so many workers, each a process with one thread; all of them gone afterwards."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    python = [sys.executable, "-m", "dask"]
    with ExitStack() as stack:
        words = [*python, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
        scheduler = stack.enter_context(started(words, scratch / "scheduler.log", environment))
        until(lambda: answers(port), "the scheduler")
        pids = []
        for number in range(workers):
            words = [
                *(*python, "worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard"),
                *(
                    "--name",
                    f"w{number}",
                    "--local-directory",
                    str(scratch),
                    "--memory-limit",
                    "0",
                    "--death-timeout",
                    "60",
                ),
            ]
            pids.append(stack.enter_context(started(words, scratch / f"worker-{number}.log", environment)).pid)
        logs = [scratch / f"worker-{number}.log" for number in range(workers)]
        until(lambda: all("Registered to" in log.read_text() for log in logs), "a Dask worker")
        yield Cluster(address, scheduler.pid, tuple(pids))
