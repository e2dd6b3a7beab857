"""A manifest lists the files of its bundle: one that is gone is missed, and what it would have told is not guessed."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests import leavings
from tests.fuzz.diagnosing import verdict_on
from tests.fuzz.seeds import CASES, files_of, listed
from unhang.diagnosis.grades import certainty_limit
from unhang.evidence.evidence_set import MAX_NAMED
from unhang.evidence.inputs import read_evidence
from unhang.findings import Certainty, Status, Unread
from unhang.wire.documents.bundle import read_manifest


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return leavings.write_bundle(tmp_path / "run")


def unread(given: Path) -> dict[str, int | None]:
    found = read_evidence([str(given)]).unread
    assert all(item.lost for item in found)
    return {item.source.path.rpartition("run/")[2]: item.rank for item in found}


@pytest.mark.parametrize("packed", ["", "zip", "gztar"])
def test_a_file_that_is_gone_is_unread_for_its_rank(bundle: Path, packed: str) -> None:
    (bundle / "logs" / "rank2.log").unlink()
    (bundle / "source" / "train.py").unlink()
    (dump,) = (bundle / "dumps").glob("*1*")
    dump.unlink()
    given = Path(shutil.make_archive(str(bundle), packed, bundle.parent, bundle.name)) if packed else bundle

    assert unread(given) == {"logs/rank2.log": 2, "source/train.py": None, f"dumps/{dump.name}": 1}


@pytest.mark.parametrize("lost", ["dumps", "source/train.py"])
def test_nothing_is_certain_without_it(bundle: Path, lost: str) -> None:
    place = bundle / lost
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()

    assert certainty_limit([], read_evidence([str(bundle)]).unread) is Certainty.LIKELY


def test_a_whole_bundle_misses_nothing(bundle: Path) -> None:
    assert unread(bundle) == {}


def test_a_manifest_without_the_list_misses_nothing(bundle: Path) -> None:
    manifest = json.loads((bundle / "bundle.json").read_text())
    del manifest["files"]
    (bundle / "bundle.json").write_text(json.dumps(manifest))
    shutil.rmtree(bundle / "dumps")

    assert unread(bundle) == {}


def test_what_was_not_given_or_lies_there_twice_is_not_gone(bundle: Path) -> None:
    (bundle / "logs" / "rank1.log").unlink()
    os.link(bundle / "logs" / "rank0.log", bundle / "logs" / "rank1.log")

    assert unread(bundle) == {}
    assert read_evidence([str(bundle / "bundle.json"), str(bundle / "logs")]).unread == []


def test_a_log_that_was_cut_is_not_all_of_it(bundle: Path) -> None:
    manifest = json.loads((bundle / "bundle.json").read_text())
    (bundle / "bundle.json").write_text(json.dumps(manifest | {"cut": ["logs/rank3.log"]}))

    (item,) = read_evidence([str(bundle)]).unread

    assert (item.source.path, item.rank, item.lost) == (str(bundle / "logs" / "rank3.log"), 3, True)


def test_a_list_without_end_is_counted(bundle: Path) -> None:
    manifest = json.loads((bundle / "bundle.json").read_text())
    manifest["files"] = [f"stacks/rank_{rank}.txt" for rank in range(5000)]
    (bundle / "bundle.json").write_text(json.dumps(manifest))

    found = read_evidence([str(bundle)]).unread

    assert len(found) == MAX_NAMED + 1
    assert any("4,900 more files" in item.reason for item in found)


@pytest.mark.parametrize("key", ["files", "cut"])
@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "logs/../../x"])
def test_a_list_does_not_lead_out_of_its_bundle(bundle: Path, name: str, key: str) -> None:
    manifest = json.loads((bundle / "bundle.json").read_text())

    found = read_manifest(json.dumps(manifest | {key: [name]}).encode(), source="bundle.json")

    assert isinstance(found, Unread)
    assert "outside the bundle" in found.reason


@pytest.mark.parametrize(
    ("case", "lost"),
    [
        ("uneven-data/hit_a_break_of_another_rank", "dumps/nccl_trace_rank_0"),
        ("single-rank-work/miss_saves_after_its_loop", "source/train.py"),
    ],
)
def test_another_cause_is_not_certain_of_what_is_left(case: str, lost: str) -> None:
    files = listed(files_of(CASES / case / "input"))
    del files[lost]

    verdict, _ = verdict_on(files)

    certain = [finding.cause.value for finding in verdict.findings if finding.certainty is Certainty.CERTAIN]
    assert certain == []


def test_without_the_manifest_that_names_its_source_a_save_may_stand_behind_its_loop() -> None:
    files = files_of(CASES / "single-rank-work" / "miss_saves_after_its_loop" / "input")
    del files["bundle.json"]

    verdict, _ = verdict_on(files)

    assert verdict.findings
    assert not any(finding.certainty is Certainty.CERTAIN for finding in verdict.findings)


def test_work_of_most_ranks_is_not_work_of_one_wherever_their_program_lies() -> None:
    """A container calls the same file by another path."""
    files = files_of(CASES / "unknown" / "hit_attach_most_ranks_work_still" / "input")
    for name in ("stacks/rank_1.json", "stacks/rank_1.1.json"):
        files[name] = files[name].replace(b"/path-3/", b"/other/")

    verdict, _ = verdict_on(files)

    assert "single-rank-work" not in {finding.cause.value for finding in verdict.findings}


@pytest.mark.parametrize(
    ("case", "lost"),
    [
        ("single-rank-work/hit_writes_in_every_step", "machine/pace.json"),
        ("timeout-too-short/hit_marked_evaluation_outlasts_the_limit", "dumps/nccl_trace_rank_1"),
    ],
)
def test_a_job_of_which_a_file_is_gone_is_not_well(case: str, lost: str) -> None:
    files = listed(files_of(CASES / case / "input"))
    del files[lost]

    verdict, code = verdict_on(files)

    assert verdict.status is not Status.HEALTHY
    assert code != 0
