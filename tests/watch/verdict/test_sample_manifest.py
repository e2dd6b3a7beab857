"""``bundle.json`` of a look can be read back, whatever processes there were."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from unhang.watch.job.job_ranks import JobRank
from unhang.watch.sampling.bundle_files import write_manifest
from unhang.watch.sampling.kept_logs import note_cut
from unhang.watch.verdict.evidence_request import EvidenceRequest, SampleResult
from unhang.watch.verdict.sample_collection import collect_evidence
from unhang.watch.verdict.sample_manifest import manifest_of
from unhang.wire.documents.bundle import BundleManifest, read_manifest
from unhang.wire.record_views import RankIdentity, RecordView


def test_a_process_without_a_rank_does_not_spoil_it(tmp_path: Path) -> None:
    members = {rank: JobRank(rank, 100 + rank, RecordView(identity=RankIdentity(rank=rank))) for rank in (-1, 0)}
    order = EvidenceRequest(1, tmp_path, members, world_size=None, job_outputs={}, stalled_since_s=None, live=False)

    write_manifest(tmp_path, manifest_of(order, SampleResult()))

    found = read_manifest(tmp_path / "bundle.json", source="bundle.json")
    assert isinstance(found, BundleManifest)
    assert [process.rank for process in found.processes] == [0]


def written(folder: Path) -> BundleManifest:
    order = EvidenceRequest(1, folder / "records", {}, world_size=2, job_outputs={}, stalled_since_s=None, live=False)
    write_manifest(folder, manifest_of(order, SampleResult()))
    found = read_manifest(folder / "bundle.json", source="bundle.json")
    assert isinstance(found, BundleManifest)
    return found


def test_it_lists_the_evidence_beside_it_and_nothing_else(tmp_path: Path) -> None:
    evidence = ("dumps/rank_0", "logs/attempt_0/1/stderr.log", "machine/pace.json", "source/parts/model.py")
    others = ("report.html", ".unhang/before/dumps/rank_0", "dumps/.rank_0.71.3", "nodes/h2/dumps/rank_1")
    gives_way, no_text = "machine/series.2.jsonl", os.fsdecode(b"source/\xff\n.py")
    for name in (*evidence, *others, gives_way, no_text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")

    assert sorted(written(tmp_path).files) == sorted(evidence)


def test_it_names_logs_whose_capture_stopped(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    assert written(tmp_path).cut == ()

    note_cut(tmp_path / "records", "logs/attempt_0/3/stderr.log")
    note_cut(tmp_path / "records", "logs/launcher.log")

    assert written(tmp_path).cut == ("logs/attempt_0/3/stderr.log", "logs/launcher.log")


@pytest.mark.parametrize(
    ("thread", "ended_ns", "seen", "exit_code"),
    [
        ("MainThread", 5, None, 1),
        ("Thread-1 (send)", 5, None, None),
        ("MainThread", None, None, None),
        ("MainThread", 5, 3, 3),
    ],
)
def test_what_ended_a_rank_tells_how_where_nobody_could_ask(
    tmp_path: Path, thread: str, ended_ns: int | None, seen: int | None, exit_code: int | None
) -> None:
    (tmp_path / "crash").mkdir()
    said = {"thread": thread, "type": "ValueError", "message": "no", "file": "train.py", "line": 3, "function": "main"}
    (tmp_path / "crash" / "rank_0.except").write_text(json.dumps(said) + "\n")
    member = JobRank(0, 100, RecordView(identity=RankIdentity(rank=0)), ended_ns=ended_ns, exit_code=seen)

    collect_evidence(
        EvidenceRequest(1, tmp_path, {0: member}, world_size=1, job_outputs={}, stalled_since_s=None, live=False),
        tmp_path,
    )

    found = read_manifest(tmp_path / "bundle.json", source="bundle.json")
    assert isinstance(found, BundleManifest)
    assert [process.exit_code for process in found.processes] == [exit_code]
