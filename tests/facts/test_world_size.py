"""How many ranks there are, from whatever says so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.facts.jobs import call, recording
from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import LogEvent, LogReading
from unhang.facts.model import RankFacts
from unhang.facts.world_size import ranks_of_job, world_size_of
from unhang.findings import Source
from unhang.wire.documents.bundle import BundleManifest


def size(
    *,
    manifest: int | None = None,
    members: int | None = None,
    seen: tuple[int, ...] = (),
    backend: str = "nccl",
    **values: Any,
) -> int | None:
    manifests = (
        [BundleManifest(source=Source("bundle.json"), world_size=manifest, processes=())]
        if manifest is not None
        else []
    )
    event = LogEvent("wd.timeout", Source("job.log", 1), "", None, None, values)
    log = LogReading(Source("job.log"), None, (event,) if values else (), (), (), (), (), 1, ())
    dumps = {}
    if members is not None or backend == "gloo":
        made = recording(0, [call(1, backend=backend)], groups={"0": range(members or 0)})
        dumps[0] = made
    evidence = EvidenceSet(recorder_dumps=list(dumps.values()), logs=[log], manifests=manifests)
    return world_size_of(evidence, dumps, {rank: RankFacts(rank) for rank in seen})


def test_the_manifest_says_it_first() -> None:
    assert size(manifest=8, members=4, world_size=2) == 8


def test_then_the_members_of_the_default_group() -> None:
    assert size(members=4, world_size=2) == 4


def test_then_a_log_line() -> None:
    assert size(world_size=16) == 16


def test_a_gather_tells_it_by_its_sizes() -> None:
    assert size(operation="_allgather_base", elements_in=262675456, elements_out=1050701824) == 4
    assert size(operation="_reduce_scatter_base", elements_in=800, elements_out=100) == 8
    assert size(operation="allreduce", elements_in=800, elements_out=100) is None


def test_it_is_never_less_than_the_ranks_seen() -> None:
    assert size(manifest=2, seen=(0, 5)) == 6
    assert size(members=2, seen=(3,)) == 4


def test_nonsense_in_a_log_is_not_believed() -> None:
    assert size(world_size=-3) is None
    assert size(world_size=10**12) is None


def test_nothing_says_it_and_it_is_not_known() -> None:
    assert size() is None
    assert size(seen=(0, 1, 2)) is None


def test_gloo_dumps_name_no_members_so_the_ranks_seen_are_all_there_is() -> None:
    assert size(backend="gloo", seen=(0, 1, 2)) == 3
    assert size(backend="gloo", seen=(0,)) is None


@pytest.mark.parametrize(
    ("world_size", "seen", "ranks"),
    [
        (4, (0, 1), (0, 1, 2, 3)),
        (None, (0, 1, 3), (0, 1, 2, 3)),  # a gap is a rank
        (None, (1, 2, 3), (0, 1, 2, 3)),
        (None, tuple(range(8, 16)), tuple(range(8, 16))),  # the log of one node
        (None, (8, 9, 10, 12, 13, 14, 15), tuple(range(8, 16))),  # and a gap in it
        (None, (0, 3), (0, 3)),  # half of them: filtered
        (None, (), ()),
    ],
)
def test_a_gap_below_the_highest_rank_is_a_rank(
    world_size: int | None, seen: tuple[int, ...], ranks: tuple[int, ...]
) -> None:
    assert ranks_of_job(world_size, seen) == ranks
