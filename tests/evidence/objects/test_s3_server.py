"""A real S3 server on this machine: what it has is read where it is, and whatever it does is told, in time."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import leavings, object_server
from tests.command import unhang
from tests.compare.test_compare_command import run_folder
from tests.evidence.objects.test_memory_store import one_of_each_cause, verdicts
from tests.object_server import ObjectServer, serving
from tests.test_cases import name_of
from tests.view.runs import STALLED
from unhang.errors import EvidenceError
from unhang.evidence.flight_recorder.many_dumps import SingleDumpReader
from unhang.evidence.found_files import find_files
from unhang.evidence.inputs import read_evidence
from unhang.evidence.items import RecorderDump
from unhang.evidence.objects import requests
from unhang.evidence.opened_files import OpenedFile, OpenedFiles
from unhang.evidence.read_limits import DEFAULT_LIMITS
from unhang.findings import Unread
from unhang_lab.dump_writer import StalledJob

pytest.importorskip("s3fs", reason="s3fs is not installed (PyPI: s3fs)")
pytestmark = pytest.mark.skipif(bool(object_server.why_not()), reason=object_server.why_not() or "it is")
QUICKLY = {"AWS_MAX_ATTEMPTS": "1"}
"""The package behind s3:// asks again by itself, with waits between."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    with serving(tmp_path_factory.mktemp("store") / "buckets") as server:
        yield server


@pytest.fixture
def server(running: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """The server with a bundle in s3://runs/monday, asked by this process."""
    leavings.write_bundle(running.folder / "runs" / "monday")
    running.use(monkeypatch)
    yield running
    shutil.rmtree(running.folder / "runs")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """A server that a test may stop, with a bundle in s3://runs/monday."""
    leavings.write_bundle(tmp_path / "buckets" / "runs" / "monday")
    with serving(tmp_path / "buckets") as server:
        server.use(monkeypatch)
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        yield server


@pytest.mark.parametrize("folder", one_of_each_cause()[::5], ids=name_of)
def test_a_case_is_judged_the_same_in_a_bucket(server: ObjectServer, folder: Path) -> None:
    place = folder / "input"
    shutil.copytree(place, server.folder / "runs" / "case")

    told = verdicts("s3://runs/case")

    assert told.replace("s3://runs/case", str(place)) == verdicts(str(place))


def test_the_command_reads_a_bucket(server: ObjectServer) -> None:
    done = unhang("diagnose", "s3://runs/monday", "--format", "json", environment=server.environment)

    there = server.folder / "runs" / "monday"
    here = unhang("diagnose", there, "--format", "json")
    assert (done.returncode, done.stderr) == (here.returncode, "")
    assert json.loads(done.stdout.replace("s3://runs/monday", str(there))) == json.loads(here.stdout)


def test_a_long_dump_is_fetched_at_its_ends(server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    import s3fs.core

    job = StalledJob(ranks=8, entries=2_000, frames=10, laggard=1)
    for rank, data in job.dumps(3):
        (server.folder / "runs" / f"nccl_trace_rank_{rank}").write_bytes(data)
    fetched: list[tuple[str, int, int]] = []
    fetch = s3fs.core._fetch_range

    def counted(store: Any, bucket: str, key: str, version: Any, start: int, end: int, **options: Any) -> bytes:
        fetched.append((key, start, end))
        return fetch(store, bucket, key, version, start, end, **options)

    monkeypatch.setattr(s3fs.core, "_fetch_range", counted)

    there = read_evidence(["s3://runs/nccl_trace_rank_*"]).recorder_dumps

    size = sum((server.folder / "runs" / f"nccl_trace_rank_{rank}").stat().st_size for rank in range(3))
    assert sum(end - start for _, start, end in fetched) <= 0.15 * size
    here = read_evidence([str(server.folder / "runs" / "nccl_trace_rank_*")]).recorder_dumps
    assert [one.entries.record_id.tolist() for one in there] == [one.entries.record_id.tolist() for one in here]
    assert [one.status for one in there] == [one.status for one in here]


def pieces_of(found: Any) -> Iterator[RecorderDump | Unread | OpenedFile]:
    reader = SingleDumpReader()
    for piece in OpenedFiles(found, DEFAULT_LIMITS):
        remote = piece.remote_dump() if isinstance(piece, OpenedFile) else None
        yield reader.read(remote, source=piece.name) if remote is not None else piece  # type: ignore[union-attr]
    reader.close()


def test_an_object_that_is_removed_after_it_was_listed(server: ObjectServer) -> None:
    found = find_files(["s3://runs/monday"], DEFAULT_LIMITS)
    (server.folder / "runs" / "monday" / "logs" / "rank2.log").unlink()

    pieces = list(OpenedFiles(found, DEFAULT_LIMITS))

    (lost,) = [piece for piece in pieces if isinstance(piece, Unread)]
    assert lost.source.path == "s3://runs/monday/logs/rank2.log"
    assert lost.reason == "is gone: it was there when its folder was listed"


def test_an_object_that_is_another_one_now(server: ObjectServer) -> None:
    found = find_files(["s3://runs/monday"], DEFAULT_LIMITS)
    (server.folder / "runs" / "monday" / "logs" / "rank2.log").write_bytes(b"another log of the same name\n" * 3)

    pieces = list(OpenedFiles(found, DEFAULT_LIMITS))

    (lost,) = [piece for piece in pieces if isinstance(piece, Unread)]
    assert lost.reason == "was replaced after it was listed"


def test_a_wrong_key_is_told_and_never_shown(server: ObjectServer) -> None:
    wrong = {**server.environment, "AWS_SECRET_ACCESS_KEY": "wrong-secret-of-nobody"}

    done = unhang("diagnose", "s3://runs/monday", environment=wrong)

    assert done.returncode == 2
    assert "s3://runs/monday: may not be read with these credentials (access denied)" in " ".join(done.stderr.split())
    assert "wrong-secret" not in done.stderr + done.stdout
    assert "Traceback" not in done.stderr


def test_no_key_at_all(server: ObjectServer) -> None:
    none = {name: value for name, value in server.environment.items() if "KEY" not in name}
    nobody = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "")

    done = unhang("diagnose", "s3://runs/monday", environment={**nobody, **none, "HOME": "/nonexistent"})

    assert done.returncode == 2
    assert "needs credentials, and none were found" in " ".join(done.stderr.split())


def test_a_bucket_that_is_not_there(server: ObjectServer) -> None:
    done = unhang("diagnose", "s3://nobodys/run", environment=server.environment)

    assert done.returncode == 2
    assert "s3://nobodys/run does not exist" in done.stderr


def test_a_server_that_is_not_there(own: ObjectServer) -> None:
    own.stop()

    with pytest.raises(EvidenceError, match=r"s3://runs/monday: could not be read: the server did not answer"):
        read_evidence(["s3://runs/monday"])


def test_a_server_that_goes_away_meanwhile(own: ObjectServer) -> None:
    for rank in range(40):
        (own.folder / "runs" / "monday" / "logs" / f"rank{rank}.log").write_text(leavings.watchdog_log(rank) * 400)
    heard: list[str] = []

    def stop_soon(_done: int, _all: int, name: str) -> None:
        heard.append(name)
        own.stop()

    evidence = read_evidence(["s3://runs/monday"], progress=stop_soon)

    assert heard
    reasons = {item.reason for item in evidence.unread}
    assert len(evidence.unread) > 10
    assert requests.NOT_ASKED in reasons
    assert any(reason.startswith("could not be read: the server did not answer") for reason in reasons)
    assert not any(item.failed for item in evidence.unread)


def test_a_server_that_does_not_answer_is_not_waited_for(own: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_files(["s3://runs/monday"], DEFAULT_LIMITS)
    monkeypatch.setattr(requests, "LIMIT_S", 1.0)
    os.kill(own.process.pid, signal.SIGSTOP)

    pieces = list(OpenedFiles(found, DEFAULT_LIMITS))

    os.kill(own.process.pid, signal.SIGCONT)
    assert all(isinstance(piece, Unread) for piece in pieces)
    assert len(pieces) == len(found.files)
    assert pieces[0].reason == "the server did not answer within 1 s"  # type: ignore[union-attr]


def test_a_run_that_is_over_is_shown_from_a_bucket(server: ObjectServer) -> None:
    for name in ("stalled", "finished"):
        shutil.copytree(STALLED.parent / name, server.folder / "runs" / name)

        there = unhang("view", f"s3://runs/{name}", "--once", environment=server.environment)

        here = unhang("view", STALLED.parent / name, "--once")
        assert (there.returncode, there.stderr) == (0, "")
        assert there.stdout == here.stdout.replace(str(STALLED.parent), "s3://runs")


def test_what_is_no_run_is_not_shown(server: ObjectServer) -> None:
    done = unhang("view", "s3://runs/monday", "--once", environment=server.environment)

    assert done.returncode == 2
    assert "is not a run folder" in done.stderr


def test_two_runs_in_buckets_are_compared(server: ObjectServer, tmp_path: Path) -> None:
    run_folder(server.folder / "runs" / "a")
    run_folder(server.folder / "runs" / "b", slow_from=0)

    there = unhang("compare", "s3://runs/a", "s3://runs/b", "--format", "json", environment=server.environment)

    here = unhang("compare", "a", "b", "--format", "json", folder=server.folder / "runs")
    assert (there.returncode, there.stderr) == (here.returncode, "")
    assert json.loads(there.stdout.replace("s3://runs/", "")) == json.loads(here.stdout)
