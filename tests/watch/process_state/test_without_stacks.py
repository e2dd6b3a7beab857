"""Without py-spy, or where nobody may look into a process: the ranks' own records still name the line."""

from __future__ import annotations

import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Certainty, Verdict
from unhang.watch.process_state.py_spy import find_py_spy
from unhang_lab.expectation import find_mistakes
from unhang_lab.lab_case import LabCase, find_case
from unhang_lab.watched import watch_case

pytestmark = [pytest.mark.job, pytest.mark.live]

REFUSED = "#!/bin/sh\necho 'Error: Permission Denied: Try running again with elevated permissions' >&2\nexit 1\n"
TEARS = """#!/bin/sh
case "$*" in *--nonblocking*) ;; *) exec {py_spy} "$@" ;; esac
{py_spy} "$@" | awk '/^Thread/ {{ seen = 0 }} {{ seen++ }} seen <= 3 || /^$/'
"""
"""Of every thread the two inner frames, as of a rank in full flight on a busy machine."""
LIMIT_S = 180.0
"""From the start of Python: on a slow machine torch alone takes half a minute to load."""


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """This Python with its packages in another place, where no py-spy stands beside it."""
    programs = tmp_path / "elsewhere" / "bin"
    programs.mkdir(parents=True)
    base = Path(sys.executable).resolve()
    (programs / "python").symlink_to(base)
    (programs.parent / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    packages = programs.parent / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "packages.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return programs / "python"


@pytest.fixture
def path() -> str:
    """A search path without py-spy."""
    return os.pathsep.join(f for f in os.environ["PATH"].split(os.pathsep) if not shutil.which("py-spy", path=f))


@pytest.mark.parametrize(
    ("refuses", "how"), [(False, "pip install py-spy"), (True, "sudo py-spy dump --pid ")], ids=["missing", "refused"]
)
@pytest.mark.parametrize("name", ["rank0-tokenises", "missing-rank"])
def test_the_line_comes_from_the_rank_s_own_record(
    name: str, refuses: bool, how: str, python: Path, path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if refuses:
        (python.parent / "py-spy").write_text(REFUSED)
        (python.parent / "py-spy").chmod(0o700)
    verdict = judged(find_case(name), tmp_path_factory.mktemp("run") / "job", python, path)

    assert verdict.findings[0].certainty is not Certainty.CERTAIN
    assert [gap.how for gap in verdict.not_checked if gap.how.startswith(how)]


def test_a_stopped_rank_stands_where_its_record_says(
    python: Path, path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    verdict = judged(find_case("stopped"), tmp_path_factory.mktemp("run") / "job", python, path)

    first = verdict.findings[0]
    assert first.certainty is not Certainty.CERTAIN
    assert first.where is not None, "the line it stood at when it was stopped"
    (gap,) = [gap for gap in verdict.not_checked if gap.how == "pip install py-spy"]
    assert str(gap.what) == "all threads of ranks 0, 1"
    assert str(gap.because) == "py-spy is not installed; one thread is known from the record the rank keeps"


def test_what_every_look_loses_the_record_tells(
    python: Path, path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (python.parent / "py-spy").write_text(TEARS.format(py_spy=find_py_spy()))
    (python.parent / "py-spy").chmod(0o700)
    verdict = judged(find_case("rank0-tokenises"), tmp_path_factory.mktemp("run") / "job", python, path)

    assert verdict.findings[0].where is not None, "the program's line"


def test_a_rank_without_record_and_stack_is_named_all_the_same(
    python: Path, path: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It never came to init_process_group: only the kernel tells of it."""
    case, folder = find_case("late-to-init"), tmp_path_factory.mktemp("run") / "job"

    with watch_case(case, folder, ranks=2, extra={"PATH": path}, python=str(python)) as job:
        said = job.wait_for(lambda: "rank 1" in job.terminal.read_text() and bool(job.verdict()), LIMIT_S)
        printed = job.terminal.read_text()

    assert said, printed
    verdict = read_back(folder)
    assert verdict.findings[0].ranks == (1,)
    assert verdict.findings[0].certainty is not Certainty.CERTAIN
    assert {gap.how for gap in verdict.not_checked} >= {"pip install py-spy"}
    late = next(p for p in json.loads((folder / "bundle.json").read_text())["processes"] if p["rank"] == 1)
    assert [look["state"] for look in late["kernel"]] == ["S", "S"]


def judged(case: LabCase, folder: Path, python: Path, path: str) -> Verdict:
    """The right verdict of the live job, read back from its run folder."""
    with watch_case(case, folder, ranks=2, extra={"PATH": path}, python=str(python)) as job:
        expected = str(case.expected.cause and case.expected.cause.value)
        said = job.wait_for(lambda: expected in str((job.verdict() or {}).get("findings")), LIMIT_S)
        told, printed = job.verdict(), job.terminal.read_text()

    assert said, f"{told}\n{printed}"
    verdict = read_back(folder)
    assert find_mistakes(case, folder, verdict, watched=True) == [], folder
    return verdict


def read_back(folder: Path) -> Verdict:
    return diagnose(build_facts(read_evidence([str(folder)])))
