"""The user's files beside the evidence are kept, and nothing that a library has imported."""

from __future__ import annotations

from pathlib import Path

from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import Frame
from unhang.evidence.stacks import read_stacks
from unhang.watch.sampling.kept_source import keep_source

STACK = """\
Process 41: python train.py
Python v3.12.3 (/usr/bin/python3.12)

Thread 41 (active): "MainThread"
    <module> ({site}/mpmath/__init__.py:1)
    _call_with_frames_removed (<frozen importlib._bootstrap>:488)
    <module> ({site}/sympy/__init__.py:28)
    _call_with_frames_removed (<frozen importlib._bootstrap>:488)
    <module> ({site}/torch/utils/_sympy/functions.py:12)
    _call_with_frames_removed (<frozen importlib._bootstrap>:488)
    <module> ({site}/mine/model.py:1)
    _call_with_frames_removed (<frozen importlib._bootstrap>:488)
    main ({job}/train.py:2)
"""


def test_what_a_library_imports_is_not_kept(tmp_path: Path) -> None:
    site, job = tmp_path / "lib" / "python3.12" / "site-packages", tmp_path / "job"
    for path in (site / "mpmath" / "__init__.py", site / "sympy" / "__init__.py", site / "mine" / "model.py"):
        path.parent.mkdir(parents=True)
        path.write_text("import sympy\n")
    job.mkdir()
    (job / "train.py").write_text("import mine.model\n")
    stacks = read_stacks(STACK.format(site=site, job=job).encode(), source="rank_0.txt", rank=0)
    assert Frame("<module>", f"{site}/mpmath/__init__.py", 1) in stacks[0].threads[0].frames

    keep_source(EvidenceSet(stacks=stacks), tmp_path / "run")

    kept = {path.relative_to(tmp_path / "run" / "source").as_posix() for path in (tmp_path / "run").rglob("*.py")}
    assert {name.rpartition("/")[2] for name in kept} == {"train.py", "model.py"}
