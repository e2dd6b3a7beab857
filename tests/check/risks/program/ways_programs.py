"""Asks ``unhang check`` about small programs that are written into a folder."""

from __future__ import annotations

from pathlib import Path

from unhang.check.all_checks import ALL_CHECKS, look_around
from unhang.check.judge import judge
from unhang.findings import Cause, Finding, Verdict
from unhang.host.machine import Machine
from unhang.program.launch.planned_job import Plan

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
