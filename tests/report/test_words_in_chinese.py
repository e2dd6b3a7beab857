"""One word per idea in Chinese as well: a job is 作业; 任务 is a launcher's task or what a worker is given."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import tomli

from unhang.report.language import LOCALE_ROOT

ROOT = Path(__file__).resolve().parents[2]
PAGES = (*ROOT.glob("README.zh-CN.md"), *ROOT.glob("docs/*.zh-CN.md"), *ROOT.glob("stories/*/README.zh-CN.md"))
OF_A_LAUNCHER = re.compile(r"启动|接收任务|协调服务|srun|launcher|在一台机器|碰头|--wait|Slurm|各任务|每个任务")
"""What stands near 任务 where a task is meant."""


def translations() -> Iterator[tuple[str, str]]:
    for path in LOCALE_ROOT.rglob("*.toml"):
        table = tomli.loads(path.read_text("utf-8"))
        yield from {**table.get("texts", {}), **table.get("words", {})}.items()


def test_a_job_has_one_name_in_sentences() -> None:
    strange = [(english, said) for english, said in translations() if "任务" in said and "task" not in english]

    assert [english for english, _ in strange if not re.search(r"\bwork\b", english)] == []


def test_a_job_has_one_name_on_pages() -> None:
    assert PAGES
    strange = [
        f"{page.relative_to(ROOT)}:{number}: {line}"
        for page in PAGES
        for number, line in enumerate(page.read_text("utf-8").splitlines(), 1)
        if "任务" in line and not OF_A_LAUNCHER.search(line)
    ]

    assert strange == []
