"""Every case, saved as a user would save it, gives the verdict that it gave before; only names are others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.seeds import MANIFEST, files_of, listed
from tests.test_cases import case_folders, name_of
from unhang.diagnosis.jobs import diagnose_jobs
from unhang.evidence.inputs import read_evidence
from unhang.findings import Verdict, Where
from unhang.report.saved_case import save_case


def place(where: Where | None) -> tuple[str, int | None, str] | None:
    return (Path(where.file).name, where.line, where.function) if where is not None else None


def said(verdict: Verdict) -> list[dict[str, Any]]:
    """What must survive; folders, hosts and people have other names."""
    leading = verdict.findings[:1]
    return [
        {
            **{key: getattr(finding, key) for key in ("cause", "certainty", "severity", "ranks", "phase")},
            "where": place(finding.where),
            "waiter": place(finding.waiter_where),
            "status": verdict.status,
        }
        for finding in leading
    ] or [{"status": verdict.status}]


def write_manifest_anew(folder: Path) -> None:
    """Many cases are older than the list of files."""
    manifest = listed(files_of(folder)).get(MANIFEST)
    if manifest is not None:
        (folder / MANIFEST).write_bytes(manifest)


@pytest.mark.parametrize("folder", case_folders(), ids=name_of)
def test_the_saved_case_says_the_same(folder: Path, tmp_path: Path) -> None:
    given = [str(shutil.copytree(folder / "input", tmp_path / "input"))]
    write_manifest_anew(tmp_path / "input")
    evidence = read_evidence(given)
    before = diagnose_jobs(evidence)

    save_case(tmp_path / "case", given, evidence, before)

    after = diagnose_jobs(read_evidence([str(tmp_path / "case" / "input")]))
    assert [said(job.verdict) for job in after] == [said(job.verdict) for job in before]
    assert [item.source.path for job in after for item in job.verdict.unread if item.lost] == []
