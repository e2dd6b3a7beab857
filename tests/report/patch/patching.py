"""Patches of a program in the folder of the test: made of a check, tried with git, and asked about again."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.judge import judge
from unhang.findings import Finding, Verdict
from unhang.host.inspection_result import NodeInspection
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import PlannedJob
from unhang.report.localizer import Localizer
from unhang.report.patch import Patch, PatchSources, make_patch

ASKED = ("program", "timers", "environment")
TRAIN = "torchrun --nproc-per-node 2 train.py"


def look(command: str, asked: Sequence[str] = ASKED, **assumed: str) -> tuple[Verdict, NodeInspection]:
    """What the checks ``asked`` say of ``command``, and what they have seen. ``assumed``: versions of packages."""
    machine, checks = Machine(environment={"PATH": "/none", "HOME": "/none"}), ALL_INSPECTIONS
    plan = PlannedJob(tuple(command.split()), assumed)
    here, gaps = inspect_node(machine, plan, [check for check in checks if check.name in asked])
    return judge([here], asked, gaps), here


def of_check(verdict: Verdict, here: NodeInspection, lang: str = "en") -> Patch:
    return make_patch(verdict.findings, PatchSources.of_check(here), Localizer(lang))


def summaries(verdict: Verdict) -> list[str]:
    return [str(finding.summary) for finding in verdict.findings]


def finding(verdict: Verdict, words: str) -> Finding:
    (found,) = [one for one in verdict.findings if words in str(one.summary)]
    return found


def only_of(words: str, command: str, **assumed: str) -> Patch:
    """The patch of the one finding whose summary has ``words``."""
    verdict, here = look(command, **assumed)
    return make_patch([finding(verdict, words)], PatchSources.of_check(here), Localizer())


def diff_of(patch: Patch) -> str:
    """Without the comments."""
    return "".join(line for line in patch.text.splitlines(keepends=True) if not line.startswith("# "))


def apply(patch: Patch | str, folder: Path) -> None:
    """As a user does it: tried first, then made."""
    given = (patch if isinstance(patch, str) else patch.text).encode()
    for words in (["--check"], []):
        git = ["git", "apply", *words]
        run = subprocess.run(git, cwd=folder, input=given, capture_output=True, timeout=30, check=False)
        assert run.returncode == 0, run.stderr.decode()


def make_repository(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", str(folder)], check=True, timeout=30)
