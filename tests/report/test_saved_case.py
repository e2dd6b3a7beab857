"""A saved case is redacted, reads like the original, and drops into ``tests/cases``."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests import leavings
from tests.command import unhang
from tests.secrets.secret_kinds import all_kinds

HOSTS = re.compile(rb"gpu-a1|/workspace|alice|10\.20\.30\.40|hf_[A-Za-z]{20}")


def first_finding(*words: str | Path) -> dict[str, Any]:
    run = unhang("diagnose", *words, "--format", "json")
    assert run.returncode in (0, 1), run.stderr
    finding: dict[str, Any] = json.loads(run.stdout)["findings"][0]
    return finding


def said(finding: dict[str, Any]) -> dict[str, Any]:
    """What must survive the round trip; folders are renamed."""
    where = {**finding["where"], "file": Path(finding["where"]["file"]).name} if finding["where"] else None
    return {
        **{key: finding[key] for key in ("cause", "certainty", "severity", "ranks", "group", "phase")},
        "where": where,
    }


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = leavings.write_bundle(tmp_path / "run")
    with (folder / "logs" / "rank1.log").open("a") as log:
        log.write("connecting to 10.20.30.40 as alice@gpu-a1 with HF_TOKEN=hf_" + "x" * 30 + "\n")
    (folder / "source" / "parts").mkdir()
    (folder / "source" / "parts" / "model.py").write_text("import torch\n\n\ndef forward():\n    pass\n")
    return folder


@pytest.mark.parametrize("packed", ["", "zip", "gztar"])
def test_the_same_finding_comes_from_the_saved_case(run: Path, tmp_path: Path, packed: str) -> None:
    given = Path(shutil.make_archive(str(tmp_path / "run"), packed, run.parent, run.name)) if packed else run

    unhang("diagnose", given, "--save-case", tmp_path / "case")

    again = first_finding(tmp_path / "case" / "input")
    assert said(again) == said(first_finding(given))
    assert json.loads((tmp_path / "case" / "expected.json").read_text())["findings"][0]["where"] == again["where"]


def test_nothing_private_is_left(run: Path, tmp_path: Path) -> None:
    unhang("diagnose", run, "--save-case", tmp_path / "case")

    files = [path for path in (tmp_path / "case").rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if HOSTS.search(path.read_bytes()) or HOSTS.search(str(path.name).encode())] == []
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_sources_are_found_by_their_new_names(run: Path, tmp_path: Path) -> None:
    from unhang.evidence.inputs import read_evidence

    unhang("diagnose", run, "--save-case", tmp_path / "case")

    evidence = read_evidence([str(tmp_path / "case" / "input")])
    frames = {frame.file for dump in evidence.stacks for thread in dump.threads for frame in thread.frames}
    assert {file.path for file in evidence.sources if file.path.endswith("train.py")} <= frames
    assert len(evidence.sources) == 2


def test_what_was_lost_before_is_lost_in_the_case(run: Path, tmp_path: Path) -> None:
    from unhang.evidence.inputs import read_evidence

    (run / "logs" / "rank2.log").unlink()

    unhang("diagnose", run, "--save-case", tmp_path / "case")

    (item,) = read_evidence([str(tmp_path / "case" / "input")]).unread
    assert (Path(item.source.path).name, item.rank, item.lost) == ("rank2.log", 2, True)


def test_a_folder_in_use_is_left_alone(run: Path, tmp_path: Path) -> None:
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "mine").write_text("")

    answer = unhang("diagnose", run, "--save-case", tmp_path / "case")

    assert answer.returncode == 2
    assert "not empty" in answer.stderr


def test_standard_input_cannot_be_saved(tmp_path: Path) -> None:
    answer = unhang("diagnose", "-", "--save-case", tmp_path / "case", standard_input=leavings.watchdog_log(0).encode())

    assert answer.returncode == 2
    assert "save standard input to a file" in answer.stderr


def test_secrets_of_every_kind_are_left_out(tmp_path: Path) -> None:
    kinds = all_kinds(5)
    (tmp_path / "rank0.log").write_text("".join(f"{shown.text}\nstep 1/9\n" for shown in kinds))

    done = unhang("diagnose", tmp_path / "rank0.log", "--save-case", tmp_path / "case", "--redact")

    kept = "".join(path.read_text() for path in (tmp_path / "case").rglob("*") if path.is_file())
    left = [shown.kind for shown in kinds if any(one in kept + done.stdout + done.stderr for one in shown.secrets)]
    assert "step 1/9" in kept
    assert len(left) <= len(kinds) * 5 // 200, left
