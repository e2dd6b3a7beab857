"""Groups and how far each rank has come in them, from dumps alone."""

from __future__ import annotations

from collections.abc import Mapping

from tests.facts.jobs import call, recording
from unhang.evidence.items import RecorderDump
from unhang.facts.alignment.group_table import declared_groups, groups_from_recordings
from unhang.facts.model import GroupFacts
from unhang.findings import Source
from unhang.wire.documents.bundle import BundleManifest, RankProcess


def groups(*recordings: RecorderDump, world: int = 2) -> dict[str, GroupFacts]:
    by_rank: Mapping[int, RecorderDump] = {r.rank: r for r in recordings if r.rank is not None}
    return groups_from_recordings(by_rank, tuple(range(world)), set(by_rank))


def test_the_oldest_unfinished_call_is_the_pending_one() -> None:
    calls = [call(1), call(2, state="started", line=50), call(3, state="scheduled", line=60)]

    progress = groups(recording(0, calls, groups={"0": (0, 1)}))["0"].progress[0]

    assert (progress.enqueued, progress.completed) == (3, 1)
    assert progress.pending is not None
    assert (progress.pending.position, progress.pending.where and progress.pending.where.line) == (2, 50)


def test_a_member_without_a_dump_is_silent_and_not_forgotten() -> None:
    found = groups(recording(0, [call(1)], groups={"0": (0, 1, 2)}), world=3)["0"]

    assert found.members == (0, 1, 2)
    assert found.silent == (1, 2)


def test_a_dump_of_other_groups_says_that_this_one_was_never_used() -> None:
    first = recording(0, [call(1), call(1, group="1", state="scheduled")], groups={"0": (0, 1), "1": (0, 1)})
    second = recording(1, [call(1)], groups={"0": (0, 1), "1": (0, 1)})

    found = groups(first, second)["1"]

    assert found.silent == ()
    assert found.progress[1].enqueued == -1


def test_one_name_for_two_groups_is_told_apart_by_members() -> None:
    pairs = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}
    recordings = [
        recording(r, [call(1), call(1, group="1")], groups={"0": range(4), "1": pair}) for r, pair in pairs.items()
    ]

    found = groups(*recordings, world=4)

    assert {name: group.members for name, group in found.items()} == {
        "0": (0, 1, 2, 3),
        "1 [0, 1]": (0, 1),
        "1 [2, 3]": (2, 3),
    }


def test_a_status_alone_gives_the_position_without_the_operation() -> None:
    found = groups(recording(0, [], groups={"0": (0, 1)}, status={"0": (41, 40)}))["0"]

    pending = found.progress[0].pending
    assert pending is not None
    assert (pending.position, pending.operation) == (41, "")


def test_a_call_that_was_discovered_late_counts_when_a_later_one_is_still_listed() -> None:
    """Nothing before the oldest listed open call is open, whatever the status says."""
    calls = [call(5), call(6), call(7, state="scheduled")]

    progress = groups(recording(0, calls, groups={"0": (0, 1)}, status={"0": (7, 3)}))["0"].progress[0]

    assert progress.completed == 6


def test_gloo_counts_behind_a_peer_are_lifted() -> None:
    """What one member finished and all entered is finished for all."""
    calls = [dict(call(p, state="scheduled", backend="gloo"), retired=True) for p in (1, 2, 3)]
    behind = recording(0, calls, groups={"0": (0, 1)}, status={"0": (3, 1)})
    done = recording(1, calls, groups={"0": (0, 1)}, status={"0": (3, 3)})

    found = groups(behind, done)["0"]

    assert found.progress[0].completed == 3
    assert found.progress[0].pending is None


def of_small_group(*told: tuple[int, int]) -> GroupFacts:
    """Ranks 0 and 1 have called something in a group that Gloo records without its members; ``told``: (rank, size) as
    the ranks' own records say."""
    calls = [call(1, backend="gloo"), call(1, group="1", backend="gloo", state="scheduled")]
    recordings = {r: recording(r, calls, groups={}) for r in (0, 1)}
    recordings[2] = recording(2, [call(1, backend="gloo")], groups={})
    processes = tuple(RankProcess(rank, groups={"1": size}) for rank, size in told)
    manifest = BundleManifest(source=Source("bundle.json"), world_size=4, processes=processes)
    return groups_from_recordings(recordings, (0, 1, 2, 3), {0, 1, 2, 3}, declared_groups([manifest]))["1"]


def test_a_member_that_has_not_come_is_one_by_its_own_record() -> None:
    group = of_small_group((0, 3), (1, 3), (2, 3))

    assert (group.members, group.members_known, group.size) == ((0, 1, 2), True, 3)
    assert group.progress[2].enqueued == -1


def test_a_group_is_as_large_as_it_says_where_nobody_knows_the_third() -> None:
    group = of_small_group((0, 3), (1, 3))

    assert (group.members, group.members_known, group.size) == ((0, 1), False, 3)


def test_a_group_as_large_as_the_world_has_all_its_ranks() -> None:
    assert of_small_group((0, 4), (1, 4)).members == (0, 1, 2, 3)


def test_more_members_than_its_size_are_two_groups_of_one_name() -> None:
    assert of_small_group((0, 2), (1, 2), (2, 2)).members == (0, 1)
