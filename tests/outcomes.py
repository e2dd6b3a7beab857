"""What a run of the tests came to: what to install, and for ``scripts/gate.py`` what failed and was skipped."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("programs.txt")


def pytest_addoption(parser: pytest.Parser) -> None:
    """For the gate."""
    parser.addoption("--outcomes", metavar="FILE", help="write what failed and what was skipped, for scripts/gate.py")


def packages_for(reasons: Iterable[str]) -> list[str]:
    """The packages of the programs that are named in ``reasons`` and not here."""
    named = set(re.findall(r"[\w.-]+", " ".join(reasons).casefold()))
    rows = [line.split() for line in PROGRAMS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return sorted({package for program, package, *_ in rows if program in named and shutil.which(program) is None})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Print how to install what was missing, and write the file that ``--outcomes`` names."""
    stats = terminalreporter.stats
    skipped = {report.nodeid: _reason(report) for report in stats.get("skipped", [])}
    if packages := packages_for(skipped.values()):
        terminalreporter.write_line(f"For what was skipped: apt-get install {' '.join(packages)}")
    if file := terminalreporter.config.getoption("--outcomes"):
        failed = [report.nodeid for kind in ("failed", "error") for report in stats.get(kind, [])]
        told = {"exit": int(exitstatus), "failed": list(dict.fromkeys(failed)), "skipped": skipped}
        Path(file).write_text(json.dumps(told), encoding="utf-8")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    return str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
