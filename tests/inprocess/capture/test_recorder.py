"""What a rank's own record says of its groups."""

from __future__ import annotations

import contextlib
import sys
import types

import pytest

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


class Gone(Exception):
    pass


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_a_dump_with_stacks_loads_no_compiler(loaded: bool, fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = types.ModuleType("torch")
    compiler = types.ModuleType("torch._inductor")
    monkeypatch.setitem(sys.modules, "torch", torch)
    if loaded:
        monkeypatch.setitem(sys.modules, "torch._inductor", compiler)
        torch._inductor = compiler
    else:
        monkeypatch.delitem(sys.modules, "torch._inductor", raising=False)
    before, seen = dict(vars(torch)), []

    def dump(*, includeCollectives: bool, includeStackTraces: bool, onlyActive: bool) -> bytes:  # noqa: N803
        seen.append((includeStackTraces, getattr(torch, "_inductor", "not there")))
        if fails:
            raise Gone
        return b"dump"

    recorder = FlightRecorder(GroupNames())
    recorder._calls = {"other": dump}
    for stacks in (False, True):
        with pytest.raises(Gone) if fails else contextlib.nullcontext():
            assert recorder.dump(stacks=stacks) == b"dump"

    assert seen == [(False, compiler if loaded else "not there"), (True, compiler if loaded else None)]
    assert vars(torch) == before
