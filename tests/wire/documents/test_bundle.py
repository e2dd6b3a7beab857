"""A bundle's manifest is believed when it can be right, and unread with a reason otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unhang.findings import Source, Unread
from unhang.wire.documents.bundle import BundleManifest, RankProcess, rank_of_file, read_manifest, source_path_of_file

SOURCE = Source("job/bundle.json")


def manifest(**changes: Any) -> dict[str, Any]:
    good: dict[str, Any] = {
        "schema": "unhang.bundle/1",
        "world_size": 4,
        "backend": "nccl",
        "torch_version": "2.9.1",
        "stalled_since_s": 1_700_000_000.5,
        "taken_s": 1_700_000_010.0,
        "limit_s": 600.0,
        "source_root": "source",
        "source_prefix": "/home/u/job",
        "processes": [
            {
                "rank": 2,
                "local_rank": 0,
                "pid": 71,
                "host": "node-b",
                "exit_code": None,
                "killed_by_us": True,
                "state": "S",
            },
            {"rank": 3, "local_rank": 1, "pid": 72, "host": "node-b", "exit_code": -9, "ended_s": 1_700_000_001.0},
        ],
    }
    return {**good, **changes}


def read(**changes: Any) -> BundleManifest | Unread:
    return read_manifest(json.dumps(manifest(**changes)).encode(), source=SOURCE)


def whole() -> BundleManifest:
    result = read()
    assert isinstance(result, BundleManifest)
    return result


def test_a_manifest_is_read_whole() -> None:
    result = whole()

    assert (result.world_size, result.backend, result.limit_s, result.source) == (4, "nccl", 600.0, SOURCE)
    assert result.processes[1] == RankProcess(
        3, pid=72, host="node-b", local_rank=1, exit_code=-9, ended_s=1_700_000_001.0
    )


def test_keys_of_later_versions_are_left_out() -> None:
    assert isinstance(read(colour="blue"), BundleManifest)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"schema": "unhang.bundle/9"}, "schema"),
        ({"schema": None}, "not a bundle manifest"),
        ({"world_size": 0}, "world_size"),
        ({"world_size": -3}, "world_size"),
        ({"world_size": 10**12}, "world_size"),
        ({"world_size": "4"}, "not a bundle manifest"),
        ({"processes": [{"rank": 4}]}, "outside its world"),
        ({"processes": [{"rank": -1}]}, "processes[0].rank"),
        ({"processes": [{"rank": 1}, {"rank": 1}]}, "twice"),
        ({"processes": [{"pid": 7}]}, "not a bundle manifest"),
        ({"processes": {"rank": 1}}, "not a bundle manifest"),
        ({"taken_s": -1.0}, "taken_s"),
        ({"stalled_since_s": 1e300}, "stalled_since_s"),
        ({"backend": "nccl\x1b[2J"}, "`str` without control characters - at `$.backend`"),
        ({"backend": "n" * 10_000}, "length <= 4096 - at `$.backend`"),
        ({"processes": [{"rank": 0, "state": "Sleeping"}]}, "state"),
        ({"source_root": "../../etc"}, "outside the bundle"),
        ({"source_root": "/etc"}, "outside the bundle"),
    ],
)
def test_what_cannot_be_right_is_unread_with_its_reason(changes: dict[str, Any], reason: str) -> None:
    result = read(**changes)

    assert isinstance(result, Unread)
    assert reason in result.reason


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe\x00", b'{"schema":', b"[" * 100_000, b"null"])
def test_torn_or_foreign_content_is_unread(content: bytes) -> None:
    assert isinstance(read_manifest(content, source=SOURCE), Unread)


def test_a_missing_file_and_a_folder_are_unread(tmp_path: Path) -> None:
    assert isinstance(read_manifest(tmp_path / "bundle.json", source=SOURCE), Unread)
    assert isinstance(read_manifest(tmp_path, source=SOURCE), Unread)


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("dumps/rank_2", 2),
        ("dumps/rank_3.json", 3),
        ("dumps/earlier/rank_2", 2),
        ("stacks/rank_2.txt", 2),
        ("stacks/rank_2.1.txt", 2),
        ("stacks/rank_3.worker_99.txt", 3),
        ("logs/attempt_0/0/stderr.log", 2),
        ("logs/attempt_1/1/stdout.log", 3),
        ("dumps/rank_0", None),
        ("logs/attempt_0/7/stderr.log", None),
        ("logs/launcher.log", None),
        ("source/rank_2.py", None),
    ],
)
def test_the_manifest_decides_whose_file_it_is(name: str, rank: int | None) -> None:
    assert rank_of_file(whole(), name) == rank


def test_logs_of_two_nodes_with_one_local_rank_belong_to_nobody() -> None:
    result = read(processes=[{"rank": 0, "local_rank": 0}, {"rank": 2, "local_rank": 0}])
    assert isinstance(result, BundleManifest)

    assert rank_of_file(result, "logs/attempt_0/0/stderr.log") is None


def test_source_files_get_the_paths_frames_use() -> None:
    assert source_path_of_file(whole(), "source/models/net.py") == "/home/u/job/models/net.py"
    assert source_path_of_file(whole(), "logs/launcher.log") is None
