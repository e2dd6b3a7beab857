"""Small synthetic jobs: dumps of a few ranks, read through the real reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.flight_recorder.reading import read_recorder_dump
from unhang.evidence.items import RecorderDump
from unhang_lab.dump_writer import make_dump, make_entry, pickle_like_torch

START = 1_700_000_000_000_000_000


def call(
    position: int,
    operation: str = "all_reduce",
    *,
    state: str = "completed",
    size: Sequence[int] = (8,),
    dtype: str = "Float",
    group: str = "0",
    line: int = 40,
    backend: str = "nccl",
    file: str = "/job/train.py",
    is_p2p: bool = False,
) -> dict[str, Any]:
    """One recorded call; a group's id in the process is its name."""
    description = "default_pg" if group == "0" else f"group_{group}"
    frames = [
        {"name": operation, "filename": "/venv/lib/python3.11/site-packages/torch/distributed/d.py", "line": 9},
        {"name": "train", "filename": file, "line": line},
    ]
    return make_entry(
        position=position,
        operation=f"{backend}:{operation}",
        state=state,
        sizes=(tuple(size),),
        dtype=dtype,
        group=(group, description),
        pg_id=int(group),
        frames=frames,
        is_p2p=is_p2p,
    )


def recording(
    rank: int,
    calls: Sequence[Mapping[str, Any]],
    *,
    groups: Mapping[str, Sequence[int]],
    status: Mapping[str, tuple[int, int]] | None = None,
    first_record: int = 0,
    version: str = "2.13",
    name: str | None = None,
    whole: bool = False,
) -> RecorderDump:
    """The dump of one rank. ``status``: group → (enqueued, completed), by default what the calls say."""
    entries = [dict(entry, record_id=first_record + i) for i, entry in enumerate(calls)]
    told = status if status is not None else _status_of(entries)
    config = {g: ("default_pg" if g == "0" else f"group_{g}", ranks) for g, ranks in groups.items()}
    dump = make_dump(version, entries, groups=config, status={g: (e, -1, c) for g, (e, c) in told.items()})
    found = read_recorder_dump(pickle_like_torch(dump), source=name or f"dumps/rank_{rank}", rank=rank, whole=whole)
    assert isinstance(found, RecorderDump)
    return found


def _status_of(entries: Sequence[Mapping[str, Any]]) -> dict[str, tuple[int, int]]:
    status: dict[str, tuple[int, int]] = {}
    for entry in entries:
        group = entry["process_group"][0]
        position = entry["p2p_seq_id"] if entry["is_p2p"] else entry["collective_seq_id"]
        enqueued, completed = status.get(group, (-1, -1))
        done = position if entry["state"] == "completed" else completed
        status[group] = (max(enqueued, position), max(completed, done))
    return status


def job(*recordings: RecorderDump) -> EvidenceSet:
    """Evidence of these dumps."""
    return EvidenceSet(recorder_dumps=list(recordings))
