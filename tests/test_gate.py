"""What the gate makes of a run: skips that are expected, failures that pass alone, and what to install."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from scripts import gate
from tests import outcomes

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = ({"test": "tests/test_a.py::test_root", "says": "needs root", "reason": "-"},)
MODULES = {
    "test_one.py": """
import pytest
@pytest.mark.parametrize("n", [1, 2])
def test_fails(n): assert n == 2
def test_skips(): pytest.skip("there is no such-program")
@pytest.fixture
def broken(): raise OSError
def test_error(broken): pass
""",
    "test_two.py": "import pytest\npytest.importorskip('no_such_module')\n",
}


def judged(*failed: str, code: int | None = None, kept: tuple[str, ...] = (), alone: str = "") -> list[str]:
    told = {"exit": bool(failed) if code is None else code, "failed": failed, "skipped": {}}
    return list(gate.judge(told, (), kept, lambda test: test in alone.split()))


@pytest.mark.parametrize(
    ("test", "says", "is_red"),
    [
        ("tests/test_a.py::test_root", "Skipped: needs root", False),
        ("tests/test_a.py::test_root[1]", "Skipped: needs root", False),
        ("tests/test_a.py::test_root", "Skipped: needs nft", True),
        ("tests/test_a.py::test_rooted", "Skipped: needs root", True),
    ],
)
def test_a_skip_is_red_unless_it_is_listed_with_what_it_says(test: str, says: str, is_red: bool) -> None:
    assert bool(gate.unexpected({test: says}, ALLOWED)) is is_red


def test_what_passes_alone_is_green_with_a_row_to_add(capsys: pytest.CaptureFixture[str]) -> None:
    assert judged("a", "b", alone="a b", kept=("b",)) == []

    printed = capsys.readouterr().out
    assert 'id = "a"\n' in printed
    assert 'id = "b"\n' not in printed


def test_what_fails_again_is_red() -> None:
    assert judged("a", "b", alone="b") == ["failed alone too: a"]


@pytest.mark.parametrize(("kept", "is_red"), [((), False), (("x",), False), (("a", "x"), False), (("x", "y"), True)])
def test_more_than_three_with_those_kept_are_red(kept: tuple[str, ...], is_red: bool) -> None:
    assert bool(judged("a", "b", alone="a b", kept=kept)) is is_red


def test_kept_ones_count_without_a_failure() -> None:
    assert judged(kept=("w", "x", "y")) == []
    assert judged(kept=("w", "x", "y", "z")) != []


def test_many_failures_are_not_run_again() -> None:
    every = [f"t{number}" for number in range(gate.MAX_AGAIN + 1)]

    assert judged(*every, alone=" ".join(every)) == [f"{len(every)} tests failed; none is run again"]


@pytest.mark.parametrize(("failed", "code"), [((), 2), ((), 1), (("a",), 2), (("a",), 0)])
def test_a_run_that_did_not_end_as_its_failures_say_is_red(failed: tuple[str, ...], code: int) -> None:
    assert judged(*failed, code=code, alone="a") == [f"pytest ended with exit code {code}"]


def test_no_outcomes_are_red(tmp_path: Path) -> None:
    assert gate.main(tmp_path / "none.json") == 1


def told_of(place: Path, *words: str) -> Mapping[str, Any]:
    for name, text in MODULES.items():
        (place / name).write_text(text)
    file = place / "outcomes.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.outcomes",
        "-p",
        "no:cacheprovider",
        "--outcomes",
        str(file),
        *words,
    ]
    subprocess.run([*run, *words], cwd=place, env=environment, capture_output=True, timeout=100, check=False)
    return dict(json.loads(file.read_text()))


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["", "workers"])
def test_a_run_tells_what_failed_and_why_it_skipped(workers: tuple[str, ...], tmp_path: Path) -> None:
    told = told_of(tmp_path, *workers)

    assert told["exit"] == 1
    assert set(told["failed"]) == {"test_one.py::test_fails[1]", "test_one.py::test_error"}
    assert told["skipped"].keys() == {"test_one.py::test_skips", "test_two.py"}
    assert "there is no such-program" in told["skipped"]["test_one.py::test_skips"]


def test_a_skip_is_no_pass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p tests.outcomes\n")
    (tmp_path / "test_it.py").write_text(
        "import pytest\ndef test_skips(): pytest.skip('now')\ndef test_passes(): pass\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr(gate, "TESTS", tmp_path / "tests")

    assert gate.passes_alone("test_it.py::test_passes")
    assert not gate.passes_alone("test_it.py::test_skips")
    assert not gate.passes_alone("test_it.py::test_gone")


def test_what_is_missing_is_named_as_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ip").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tmp_path))

    reasons = ["Skipped: Chromium and chromedriver are not installed", "hosts as namespaces need nft, ip, tc"]
    assert outcomes.packages_for(reasons) == ["chromium", "chromium-driver", "iproute2", "nftables"]
    assert outcomes.packages_for(["needs root"]) == []


def test_rows_are_whole_and_name_tests_that_are_there() -> None:
    kept, allowed = gate.rows("passed_alone.toml"), gate.rows("allowed_skips.toml")

    assert len(kept) <= gate.MAX_KEPT
    assert all(isinstance(row["date"], date) and row["reason"] for row in kept)
    assert all(row["reason"] for row in allowed)
    for test in [row["id"] for row in kept] + [row["test"] for row in allowed]:
        path, _, name = test.partition("[")[0].partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test


def test_no_test_compares_two_moments() -> None:
    """A limit on waiting is none: `time.monotonic() < deadline`. Work is counted (work.py); speed is for benchmarks."""
    clock = re.compile(r"process_time|perf_counter|thread_time|os\.times\(|assert .*(?:monotonic|time\.time)\(\) - .*<")
    files = [path for path in (ROOT / "tests").rglob("*.py") if not {"cases", "fuzz"} & set(path.parts)]

    assert [path.name for path in files if path.name != "test_gate.py" and clock.search(path.read_text())] == []
