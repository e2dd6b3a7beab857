"""The recipes of docs/scale.md as they stand there, over three hosts with an S3 server on the first of them."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.object_server import KEY, SECRET, rclone, why_not
from tests.watch.nodes import slurm_cluster, three_hosts
from tests.watch.nodes.slurm_cluster import slurm
from tests.watch.nodes.three_hosts import Hosts, hosts
from unhang_lab.dump_writer import StalledJob

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
LIMIT_S = 120.0
PROGRAMS = {
    "unhang": '-c "from unhang.cli.main import main; main()"',
    "dask": "-m dask",
    "ray": "-m ray.scripts.scripts",
    "python": "",
}


def lacks(*names: str) -> str:
    """Why a recipe cannot run here; empty when it can."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return three_hosts.why_not() or why_not() or (f"{', '.join(missing)} not installed" if missing else "")


def recipe(reason: str) -> Callable[[Any], Any]:
    """Marks of a test that runs one."""
    marks = [pytest.mark.live, pytest.mark.timeout(420), pytest.mark.skipif(bool(reason), reason=reason or "-")]

    def mark(test: Any) -> Any:
        for each in marks:
            test = each(test)
        return test

    return mark


@dataclass(frozen=True, slots=True)
class Site:
    """Three hosts, a store on h1 with the dumps of a stalled job, and programs as after ``pip install``."""

    hosts: Hosts
    place: Path
    environment: Mapping[str, str]

    def on(self, number: int, line: str, log: str, **more: str) -> subprocess.Popen[bytes]:
        """Type ``line`` on a host."""
        environment = {**self.environment, **more}
        words = ["sh", "-c", f"cd {self.place} && {line}"]  # entering a host leads to its root
        return self.hosts[number].start(words, self.place / log, environment=environment)

    def said(self) -> str:
        """What all logs end with."""
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-1500:]}" for log in self.place.glob("*.log"))

    def wait(self, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not ready():
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.2)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    StalledJob(4, entries=200, laggard=2).write(tmp_path / "store" / "bucket" / "job-7")
    (tmp_path / "bin").mkdir()
    for name, words in PROGRAMS.items():
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {words} "$@"\n')
        program.chmod(0o755)
    of_store = {
        "AWS_ENDPOINT_URL": "http://10.92.0.1:9000",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "0" * 64,  # of a cluster that only this machine reaches
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
    }
    with hosts(3) as made:
        there = Site(made, tmp_path, of_store)
        serve = f"{rclone()} serve s3 {tmp_path / 'store'} --addr 10.92.0.1:9000 --config /dev/null"
        there.on(1, f"exec {serve} --auth-key {KEY},{SECRET}", "rclone.log")
        yield there


def verdict_in(log: Path) -> dict[str, Any]:
    """The JSON object in what a command printed."""
    text = log.read_text()
    found: dict[str, Any] = json.loads(text[text.index("{") :])
    return found


def assert_names_the_laggard(verdict: Mapping[str, Any], site: Site) -> None:
    assert (verdict["status"], verdict["findings"][0]["ranks"]) == ("hang", [2]), site.said()
    assert verdict["ranks_seen"] == [0, 1, 2, 3], site.said()


@recipe(lacks("distributed", "s3fs") or slurm_cluster.why_not())
def test_slurm_starts_a_dask_cluster(site: Site, tmp_path: Path) -> None:
    cluster = slurm(site.hosts, tmp_path / "slurm")
    script = EXAMPLES / "slurm" / "diagnose.sbatch"
    line = f"sbatch --nodes=3 --cpus-per-task=1 {script} s3://bucket/job-7 --format json"
    site.on(1, line, "sbatch.log", **cluster.environment)
    found = tmp_path / "slurm-1.out"
    site.wait(lambda: found.exists() and found.read_text().rstrip().endswith("}"))

    assert_names_the_laggard(verdict_in(found), site)
    site.wait(lambda: cluster.asked("squeue", "-h").strip() == "")


@recipe(lacks("distributed", "s3fs"))
def test_a_dask_cluster_beside_the_store(site: Site, tmp_path: Path) -> None:
    site.on(1, "dask scheduler --host 10.92.0.1 --no-dashboard", "scheduler.log")
    for number in (2, 3):
        site.on(number, "dask worker tcp://10.92.0.1:8786 --nthreads 1 --no-dashboard", f"worker-{number}.log")
    line = "unhang diagnose s3://bucket/job-7 --engine dask --engine-address tcp://10.92.0.1:8786 --format json"
    done = site.on(1, f"{line} >verdict.json", "unhang.log")

    assert done.wait(LIMIT_S) == 1, site.said()
    assert_names_the_laggard(verdict_in(tmp_path / "verdict.json"), site)


@recipe(lacks("ray", "s3fs"))
def test_a_ray_cluster(site: Site, tmp_path: Path) -> None:
    short = tempfile.mkdtemp(prefix="r", dir="/tmp")  # the names of its sockets may not be longer than 107 bytes
    temporary = f"--temp-dir {short}"
    start = "ray start --disable-usage-stats --num-cpus 1 --object-store-memory 100000000"
    head = site.on(1, f"{start} --head --node-ip-address 10.92.0.1 --include-dashboard=false {temporary}", "head.log")
    assert head.wait(LIMIT_S) == 0, site.said()
    other = site.on(2, f"{start} --address 10.92.0.1:6379 --node-ip-address 10.92.0.2", "other.log")
    assert other.wait(LIMIT_S) == 0, site.said()
    line = "unhang diagnose s3://bucket/job-7 --engine ray --engine-address 10.92.0.1:6379 --format json"
    done = site.on(1, f"{line} >verdict.json", "unhang.log")

    assert done.wait(LIMIT_S) == 1, site.said()
    assert_names_the_laggard(verdict_in(tmp_path / "verdict.json"), site)
    shutil.rmtree(short, ignore_errors=True)


def test_the_kubernetes_recipe_is_consistent() -> None:
    """It was not run: its parts at least fit together."""
    told = list(yaml.safe_load_all((EXAMPLES / "kubernetes" / "diagnose.yaml").read_text("utf-8")))
    service, deployments, job = told[0], told[1:3], told[3]
    containers = [one["spec"]["template"]["spec"]["containers"][0] for one in (*deployments, job)]
    address = f"tcp://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"

    assert service["spec"]["selector"] == deployments[0]["spec"]["template"]["metadata"]["labels"]
    assert [address in one["command"] for one in containers] == [False, True, True]
    assert len({one["image"] for one in containers}) == 1
