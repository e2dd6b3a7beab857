"""A guard that waits has a limit of its own: the first one to pass is the one that counts."""

from __future__ import annotations

import json
from pathlib import Path

from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.waiting.timeouts import guard_limit


def test_the_first_guard_to_give_up_is_named(tmp_path: Path) -> None:
    waits = [("together('save')", 5.0, 20.0), ("same_on_all_ranks('data')", 5.0, 60.0), ("even_batches", 5.0, None)]
    processes = [
        {"rank": rank, "pid": 10 + rank, "guard_wait": {"what": what, "waited_s": waited_s, "limit_s": limit_s}}
        for rank, (what, waited_s, limit_s) in enumerate(waits)
    ]
    manifest = {"schema": "unhang.bundle/1", "world_size": 4, "taken_s": 1_000.0, "processes": processes}
    (tmp_path / "bundle.json").write_text(json.dumps(manifest))

    assert guard_limit(build_facts(read_evidence([str(tmp_path)]))) == (1_015.0, "unhang.together('save')")


def test_without_a_guard_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "bundle.json").write_text(json.dumps({"schema": "unhang.bundle/1", "taken_s": 1_000.0}))

    assert guard_limit(build_facts(read_evidence([str(tmp_path)]))) is None
