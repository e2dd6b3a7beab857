"""Asks ``unhang check`` about the program of a command in the folder where the test is."""

from __future__ import annotations

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.judge import judge
from unhang.findings import Finding, Verdict
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import PlannedJob

CHECK = [check for check in ALL_INSPECTIONS if check.name in ("program", "timers", "environment")]


def ask(command: str) -> Verdict:
    situation, gaps = inspect_node(Machine(environment={"PATH": "/none"}), PlannedJob(tuple(command.split())), CHECK)
    return judge([situation], ["program"], gaps)


def in_words(finding: Finding) -> str:
    place = f"{finding.where.file}:{finding.where.line}" if finding.where is not None else ""
    return " ".join([place, finding.cause.value, str(finding.summary), *map(str, finding.because)])
