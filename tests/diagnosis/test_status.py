"""How bad: a job that a library ended at once crashed; one whose ranks are still there hangs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.test_cases import CASES
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Cause, Status

ABORTED = CASES / "collective-mismatch" / "hit_gloo_ended_the_guilty_rank" / "input"


def status_with(place: Path, change: Callable[[dict[str, Any]], None]) -> Status:
    folder = place / "job"
    shutil.copytree(ABORTED, folder)
    manifest = json.loads((folder / "bundle.json").read_bytes())
    change(manifest)
    (folder / "bundle.json").write_text(json.dumps(manifest))
    verdict = diagnose(build_facts(read_evidence([str(folder)])))
    assert verdict.findings[0].cause is Cause.COLLECTIVE_MISMATCH
    return verdict.status


def test_gloo_ended_one_and_all_fell(tmp_path: Path) -> None:
    assert status_with(tmp_path, lambda manifest: None) is Status.CRASH


def test_gloo_ended_one_and_another_stays(tmp_path: Path) -> None:
    def stays(manifest: dict[str, Any]) -> None:
        manifest["processes"][2] |= {"exit_code": None, "terminated_by_launcher": False}
        (tmp_path / "job/logs/launcher.stdout.log").unlink()  # it says that it ended all
        shutil.rmtree(tmp_path / "job/logs/attempt_0/2")
        (tmp_path / "job/crash/rank_2.except").unlink()

    assert status_with(tmp_path, stays) is Status.HANG
