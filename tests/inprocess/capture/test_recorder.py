"""What a rank's own record says of its groups."""

from __future__ import annotations

from unhang.inprocess.capture.recorder import FlightRecorder, GroupNames
from unhang.wire.record_views import GroupProgress


def test_a_group_in_which_nothing_was_called_yet_is_there() -> None:
    groups = GroupNames()
    groups.add("0", 3, "cpu:gloo,cuda:nccl", wrapped=False)
    groups.add("1", 2, "gloo", wrapped=False)
    recorder = FlightRecorder(groups)
    recorder.counts["nccl", 0] = GroupProgress("0", 3, enqueued=7, completed=6, backend="nccl")

    living = recorder.living(["0", "1"])

    assert [(g.name, g.size, g.enqueued, g.completed) for g in living] == [("0", 3, 7, 6), ("1", 2, 0, 0)]
    assert [g.name for g in recorder.living(["0"])] == ["0"]
