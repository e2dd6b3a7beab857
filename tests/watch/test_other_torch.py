"""The lab under ``unhang run`` with other releases of PyTorch: name their interpreters in UNHANG_TEST_PYTHONS.

``UNHANG_TEST_PYTHONS=/venvs/torch24/bin/python:/venvs/torch28/bin/python pytest tests/watch/test_other_torch.py``.
Each needs unhang, its dependencies and py-spy installed; docs/support.md says what came of it.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

PYTHONS = [path for path in os.environ.get("UNHANG_TEST_PYTHONS", "").split(os.pathsep) if path]
CASES = {"missing-rank": 2, "stopped": 2, "killed": 2, "rank0-tokenises": 2, "different-sizes": 3, "healthy": 2}
"""Lab cases and their ranks."""
LIMIT_S = 150

DRIVER = """
import json, sys
from pathlib import Path
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang_lab.lab_case import find_case
from unhang_lab.expectation import find_mistakes
from unhang_lab.watched import watch_case

case, folder = find_case(sys.argv[1]), Path(sys.argv[2])
cause = case.expected.cause

def told():
    verdict = job.verdict()
    return bool(verdict and verdict["findings"] and cause and verdict["findings"][0]["cause"] == cause.value)

with watch_case(case, folder, ranks=int(sys.argv[3])) as job:
    job.wait_for(told, 90.0)
    said = {"exit": job.front.poll(), "verdict": job.verdict() is not None, "terminal": job.terminal.read_text()}
if cause is not None:
    said["mistakes"] = find_mistakes(case, folder, diagnose(build_facts(read_evidence([str(folder)]))), watched=True)
print("SAID", json.dumps(said))
"""

pytestmark = [
    pytest.mark.job,
    pytest.mark.live,
    pytest.mark.timeout(LIMIT_S + 30),
    pytest.mark.skipif(not PYTHONS, reason="UNHANG_TEST_PYTHONS names no interpreter with another PyTorch"),
]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("python", PYTHONS or ["(none named)"])
def test_a_lab_case_with_another_torch(python: str, name: str, tmp_path: Path) -> None:
    words = [python, "-c", DRIVER, name, str(tmp_path / "run"), str(CASES[name])]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)

    assert "SAID " in ran.stdout, ran.stderr[-3000:]
    said = json.loads(ran.stdout.partition("SAID ")[2])
    if name == "healthy":
        assert (said["exit"], said["verdict"]) == (0, False), said["terminal"]
    else:
        assert said["mistakes"] == [], said["terminal"]
    assert "Warning" not in said["terminal"] or "BUFFER_SIZE" not in said["terminal"]
