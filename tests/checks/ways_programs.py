"""Asks ``unhang check`` about small programs that are written into a folder."""

from __future__ import annotations

from pathlib import Path

from unhang.checks.all_checks import ALL_CHECKS, look_around
from unhang.checks.machine import Machine
from unhang.checks.plan import Plan
from unhang.diagnosis.preflight import judge
from unhang.findings import Cause, Finding, Verdict

CHECK = [check for check in ALL_CHECKS if check.name in ("program", "timers", "environment")]
HEAD = "import os, time, torch, torch.distributed as dist\n"


def ask(folder: Path, command: str = "torchrun --nproc_per_node 2 t.py", **files: str) -> Verdict:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    situation, gaps = look_around(Machine(environment={"PATH": "/none"}), Plan(tuple(command.split())), CHECK)
    return judge([situation], ["program"], gaps)


def parted(verdict: Verdict) -> list[Finding]:
    return [one for one in verdict.findings if one.cause is Cause.RANK_CONDITIONAL_COLLECTIVE]


def of_cause(verdict: Verdict, cause: Cause) -> list[Finding]:
    return [one for one in verdict.findings if one.cause is cause]
