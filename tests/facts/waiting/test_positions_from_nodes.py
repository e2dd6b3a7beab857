"""In a job of many nodes the evidence of a few is asked for; what the watchers of the others told fills the rest."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Source, Unread
from unhang.wire.documents.other_nodes import read_nodes

CASE = Path(__file__).resolve().parents[2] / "cases" / "network-fault" / "miss_only_a_watcher_is_silent" / "input"
WORLD = 10_000
_TOLD = b'{"group": "0", "rank": [1], "enqueued": [], "completed": []}'
UNEVEN = b'{"schema": "unhang.nodes/1", "nodes": [{"name": "a", "positions": [%b]}]}' % _TOLD


@pytest.mark.timeout(120)
def test_the_one_rank_behind_of_ten_thousand_is_named(tmp_path: Path) -> None:
    """Two ranks gave evidence; 1,249 nodes told the positions of all others, and one of them is a call behind."""
    folder = tmp_path / "run"
    shutil.copytree(CASE, folder)
    (folder / "machine" / "nodes.json").unlink()
    for path in (folder / "dumps").iterdir():
        dump = pickle.loads(path.read_bytes())
        for group in dump["pg_config"].values():
            group["ranks"] = str(list(range(WORLD)))
        path.write_bytes(pickle.dumps(dump))
    manifest = json.loads((folder / "bundle.json").read_text())
    manifest["world_size"] = WORLD
    (folder / "bundle.json").write_text(json.dumps(manifest))
    at = max(p.enqueued for g in build_facts(read_evidence([str(folder)])).groups.values() for p in g.progress.values())
    (folder / "machine" / "nodes.json").write_text(
        json.dumps({"schema": "unhang.nodes/1", "nodes": nodes(at, late=7777)})
    )

    facts = build_facts(read_evidence([str(folder)]))
    verdict = diagnose(facts)

    assert [stall.laggards for stall in facts.stalls] == [(7777,)]
    assert verdict.findings[0].ranks == (7777,)
    assert verdict.ranks_missing == ()


def nodes(at: int, *, late: int) -> list[dict[str, Any]]:
    found = []
    for first in range(2, WORLD, 8):
        ranks = list(range(first, min(first + 8, WORLD)))
        enqueued = [at - (rank == late) for rank in ranks]
        told = {"group": "0", "rank": ranks, "enqueued": enqueued, "completed": [at - 1] * len(ranks)}
        found.append({"name": f"h{first}", "host": f"h{first}", "ranks": ranks, "positions": [told]})
    return found


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b"[",
        b'{"schema": "unhang.nodes/2"}',
        b'{"schema": "unhang.nodes/1", "nodes": [{"name": "a\\u0007"}]}',
        b'{"schema": "unhang.nodes/1", "nodes": [{"name": "a", "ranks": [-1]}]}',
        b'{"schema": "unhang.nodes/1", "nodes": [{"name": "a", "silent_s": -3}]}',
        UNEVEN,
    ],
)
def test_a_listing_that_cannot_be_right_is_unread(content: bytes) -> None:
    assert isinstance(read_nodes(content, source=Source("nodes.json")), Unread)
