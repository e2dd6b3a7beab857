"""How the questions are asked: each within its limit, none at the cost of another, nothing judged where it looks."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from unhang.check.all_inspections import ALL_INSPECTIONS, Inspection, inspect_node
from unhang.check.environment.environment import SharedMemory
from unhang.check.judge import judge
from unhang.check.risks.all_risks import ALL_RISKS
from unhang.check.risks.risk import Risk
from unhang.cli.check import choose_inspections
from unhang.errors import UsageError
from unhang.findings import Cause, Certainty, Finding, NotChecked, PassedCheck, Severity, Status
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import PlannedJob
from unhang.sentences import say

SOURCE = Path(__file__).parents[2] / "src" / "unhang"
SHM = InspectionResult(SharedMemory(1 << 33))
FINE = Risk("r", "two", ask=lambda _: iter([PassedCheck("two", say("z"))]))


def warn(severity: Severity) -> Finding:
    return Finding(Cause.HOST_MEMORY, Certainty.LIKELY, severity, say("x is small"))


def test_a_check_that_hangs_is_left_behind_and_what_it_had_found_is_kept() -> None:
    never = threading.Event()

    def hangs(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
        yield SharedMemory, SHM
        never.wait(600)  # longer than a test may take

    situation, gaps = inspect_node(Machine(), PlannedJob(), [Inspection("dead mount", 2.0, hangs)])
    never.set()

    assert situation.found(SharedMemory) == SHM.found
    assert [gap.check for gap in gaps] == ["dead mount"]


def test_a_check_that_breaks_costs_only_itself() -> None:
    def breaks(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
        raise ValueError("boom")
        yield

    def works(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
        yield SharedMemory, SHM

    situation, gaps = inspect_node(Machine(), PlannedJob(), [Inspection("one", 5, breaks), Inspection("two", 5, works)])

    assert situation.found(SharedMemory) == SHM.found
    assert "boom" in str(gaps[0].because)
    assert (
        judge([situation], ["one", "two"], gaps, risks=[FINE]).status is Status.UNKNOWN
    )  # our own failure is no health


@pytest.mark.parametrize(("name", "together"), [("devices", True), ("storage", False)])
def test_checks_that_wait_are_begun_first_and_one_that_measures_is_alone(name: str, *, together: bool) -> None:
    begun = threading.Event()
    met: list[bool] = []

    def reads(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
        met.append(begun.wait(10 if together else 0.2))
        yield from ()

    def asks(machine: Machine, plan: PlannedJob) -> Iterator[tuple[type, InspectionResult[Any]]]:
        begun.set()
        yield SharedMemory, SHM

    checks = [Inspection("limits", 20, reads), Inspection(name, 20, asks)]
    situation, gaps = inspect_node(Machine(), PlannedJob(), checks)

    assert met == [together]
    assert situation.found(SharedMemory) == SHM.found
    assert gaps == ()


def test_a_command_is_killed_with_its_children_at_its_limit() -> None:
    result = Machine().command(["sh", "-c", "sleep 600 & sleep 600"], limit_s=0.3)

    assert result.found is None
    assert "did not answer" in str(result.because)


def test_what_is_not_there_is_not_the_same_as_what_may_not_be_seen(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    (tmp_path / "folder").mkdir()

    assert machine.read("/etc/nccl.conf") == InspectionResult()
    assert machine.command(["no-such-command-anywhere"]) == InspectionResult()
    assert machine.read("/folder").because is not None


def test_the_same_on_two_nodes_is_one_finding_with_both_names() -> None:
    rule = Risk("r", "limits", ask=lambda here: iter([warn(Severity.STOPS)]))

    verdict = judge([NodeInspection("h1"), NodeInspection("h2")], ["limits"], risks=[rule])

    assert [finding.nodes for finding in verdict.findings] == [("h1", "h2")]
    assert verdict.status is Status.MISCONFIGURED


def test_what_could_not_be_looked_at_at_all_is_not_health() -> None:
    gap = NotChecked(say("x"), say("y"))

    assert judge([NodeInspection()], ["limits"], [gap], risks=[]).status is Status.UNKNOWN
    assert judge([NodeInspection()], ["two"], [gap], risks=[FINE]).status is Status.HEALTHY


def test_notes_alone_are_nothing_wrong() -> None:
    note = warn(Severity.NOTE)

    assert judge([NodeInspection()], ["limits"], risks=[Risk("r", "limits", ask=lambda _: iter([note]))]).status is (
        Status.HEALTHY
    )


def test_every_inspection_is_in_the_list() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py")}
    files = {name for name, text in texts.items() if "\nNAME = " in text and "\nLIMIT_S = " in text}
    assert {item.collect.__module__.rsplit(".", 1)[-1] for item in ALL_INSPECTIONS} == files, "check/all_inspections.py"


def test_every_judgement_is_in_the_list_of_risks() -> None:
    """Found by what they give: those of a family stand in its ``RISKS``, the families in check/risks/all_risks.py."""
    found = {
        node.name
        for path in (SOURCE / "check" / "risks").rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.returns is not None and not node.name.startswith("_")
        if ast.unparse(node.returns) == "Iterator[Answer]" and len(node.args.args) == 1
    }
    assert {risk.name for risk in ALL_RISKS} == found, "RISKS of the family, or check/risks/all_risks.py"


def test_every_risk_belongs_to_a_check() -> None:
    for item in ALL_RISKS:
        assert item.check in {check.name for check in ALL_INSPECTIONS}


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("env,topo", ["environment", "topology"]), ("driver", ["driver"]), ("p", None), ("envy", None)],
)
def test_a_question_may_be_named_by_its_beginning(asked: str, meant: list[str] | None) -> None:
    if meant is None:  # two begin with it; none does
        with pytest.raises(UsageError):
            choose_inspections(asked, probe=False, dry_run=False)
    else:
        assert [check.name for check in choose_inspections(asked, probe=False, dry_run=False)] == meant
