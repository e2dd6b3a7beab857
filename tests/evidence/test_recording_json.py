"""A recording written back is the same recording, whatever its texts hold."""

from __future__ import annotations

import json

from unhang.evidence.flight_recorder.reading import read_recorder_dump
from unhang.evidence.items import RecorderDump
from unhang.evidence.recorder_dump_json import recorder_dump_as_json
from unhang_lab.dump_writer import make_dump, make_entry


def test_half_of_a_surrogate_pair_comes_back() -> None:
    dump = make_dump("2.13", [make_entry(operation="nccl:\ud800", dtype="\udfff", group=("\ud83d", "default_pg"))])
    first = read_recorder_dump(json.dumps(dump).encode(), source="rank_0")
    assert isinstance(first, RecorderDump)

    again = read_recorder_dump(recorder_dump_as_json(first), source="rank_0")

    assert isinstance(again, RecorderDump)
    assert again.entries.signatures == first.entries.signatures
    assert again.entries.group_names == first.entries.group_names
