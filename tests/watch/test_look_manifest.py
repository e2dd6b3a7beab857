"""``bundle.json`` of a look can be read back, whatever processes there were."""

from __future__ import annotations

from pathlib import Path

from unhang.evidence.bundle import read_manifest
from unhang.evidence.items import BundleManifest
from unhang.records.views import Identity, RecordView
from unhang.watch.look_manifest import manifest_of, write_manifest
from unhang.watch.members import Member
from unhang.watch.order import Order, Taken


def test_a_process_without_a_rank_does_not_spoil_it(tmp_path: Path) -> None:
    members = {rank: Member(rank, 100 + rank, RecordView(identity=Identity(rank=rank))) for rank in (-1, 0)}
    order = Order(1, tmp_path, members, world_size=None, job_outputs={}, stalled_since_s=None, live=False)

    write_manifest(tmp_path, manifest_of(order, Taken()))

    found = read_manifest(tmp_path / "bundle.json", source="bundle.json")
    assert isinstance(found, BundleManifest)
    assert [process.rank for process in found.processes] == [0]
