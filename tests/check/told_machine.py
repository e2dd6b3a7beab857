"""Machines made of what their commands answer, and what is judged of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.devices.devices import Card, Cards, DeviceSelection
from unhang.check.judge import judge
from unhang.findings import Finding, Verdict
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.host.machine import CommandOutput, Machine
from unhang.program.launch.planned_job import PlannedJob

MACHINES = Path(__file__).parents[1] / "machines"
ASKED = ("driver", "devices", "topology")


class Told(Machine):
    """A machine on which these commands answer, and there is nothing else."""

    def __init__(self, root: Path, answers: Mapping[str, CommandOutput], **environment: str) -> None:
        super().__init__(root, environment)
        self._answers = answers
        self.asked: list[str] = []

    def command(self, words: Sequence[str], limit_s: float = 8.0) -> InspectionResult[CommandOutput]:
        line = " ".join(words)
        self.asked.append(line)
        return InspectionResult(
            next((answer for start, answer in self._answers.items() if line.startswith(start)), None)
        )

    def installed(self, package: str) -> str:
        return ""


def card(index: int, name: str = "NVIDIA L20", **parts: Any) -> Card:
    return Card(index, name, f"GPU-{index}aaa-{index}", f"0000:{index:02x}:00.0", 48 << 30, **parts)


def situation(cards: Sequence[Card], words: Sequence[str] | None = None, **parts: Any) -> NodeInspection:
    results: dict[type, InspectionResult[Any]] = {
        Cards: InspectionResult(Cards(tuple(cards), driver="550.90.07")),
        DeviceSelection: InspectionResult(
            DeviceSelection(None if words is None else tuple(words), local_rank=parts.pop("local_rank", None))
        ),
        **{type(part): InspectionResult(part) for part in parts.pop("facts", ())},
    }
    return NodeInspection(parts.get("node", "h1"), parts.get("rank"), results)


def findings(*situations: NodeInspection) -> tuple[Finding, ...]:
    return tuple(found for found in judge(situations, ASKED).findings)


def ask(machine: Machine, *command: str, only: Sequence[str] = ASKED) -> Verdict:
    checks = [check for check in ALL_INSPECTIONS if check.name in only]
    found, gaps = inspect_node(machine, PlannedJob(command), checks)
    return judge([found], only, gaps)
