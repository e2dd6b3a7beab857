"""A status is keyed by a number local to its process; entries or peers tell which group it is."""

from __future__ import annotations

from tests.facts.jobs import call, recording
from unhang.evidence.items import RecorderDump
from unhang.facts.alignment.group_status import statuses_by_group


def named(*recordings: RecorderDump) -> dict[int, dict[str, tuple[int, bool]]]:
    found = statuses_by_group({r.rank: r for r in recordings if r.rank is not None})
    return {r: {n: (s.last_enqueued, inferred) for n, (s, inferred) in by.items()} for r, by in found.items()}


def test_own_entries_name_the_status() -> None:
    both = [call(1), call(9, group="1")]

    assert named(recording(0, both, groups={"0": (0, 1), "1": (0, 1)})) == {0: {"0": (1, False), "1": (9, False)}}


def test_peers_with_the_same_keys_name_the_status_of_an_empty_dump() -> None:
    groups = {"0": (0, 1), "1": (0, 1)}
    full = recording(0, [call(1), call(9, group="1")], groups=groups)
    empty = recording(1, [], groups=groups, status={"0": (1, 1), "1": (8, 8)})

    assert named(full, empty)[1] == {"0": (1, True), "1": (8, True)}


def test_with_every_recorder_off_key_0_is_the_default_group() -> None:
    dumps = [recording(r, [], groups={"0": (0, 1)}, status={"0": (41 - r, 40)}) for r in (0, 1)]

    assert named(*dumps) == {0: {"0": (41, True)}, 1: {"0": (40, True)}}


def test_a_key_that_fits_no_group_is_left_out() -> None:
    full = recording(0, [call(1)], groups={"0": (0, 1)})
    odd = recording(1, [], groups={"0": (0, 1)}, status={"7": (3, 3)})

    assert named(full, odd)[1] == {}
