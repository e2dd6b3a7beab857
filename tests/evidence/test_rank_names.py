"""Rank and host from a file's name, in the shapes real jobs leave behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.evidence.file_names import host_from_name, rank_from_name

TOLD = {
    "nccl_trace_rank_7": 7,
    "comm_lib_trace_rank_0": 0,
    "/home/u/.cache/torch/comm_lib_trace_rank_12": 12,
    "_dump_7": 7,
    "dumps/_dump_15": 15,
    "trace_7.json": 7,
    "comm_traces/rank_7": 7,
    "rank7.pkl": 7,
    "rank-7.pickle": 7,
    "RANK_7": 7,
    "node12_rank_3": 3,
    "nccl_trace_rank_3.gpu-host-17": 3,
    "nccl_trace_rank_3.node12.cluster.local": 3,
    "h200-07_dump_3": 3,
    "gpu8-nccl_trace_rank_21": 21,
    "attempt_0/3/stderr.log": 3,
    "torchelastic_x/none_abc/attempt_1/11/stdout.log": 11,
    "rank3.log": 3,
    "rank_3.pyspy.txt": 3,
    "rank_07.txt": 7,
    "job.tar.gz!dumps/nccl_trace_rank_5": 5,
    "node_rank_1_rank_9.log": 9,
    "local_rank_1_global_rank_9.log": 9,
    "worker-3-rank-14.json": 14,
    "rank_3/train.log": 3,
    "rank3/stderr.log": 3,
    "logs/3.log": 3,
    "fr_trace_4": 4,
    "stack_6.txt": 6,
    "trace7": 7,
    "mydump_2": 2,
    "flight_recorder_9.pkl": 9,
    "myrun_nccl_3": 3,
}

NOT_TOLD = [
    "train.log",
    "slurm-123456.out",
    "job-123456-7.out",
    "rank0-7.log",
    "rank_3_rank_4.log",
    "ranks.json",
    "local_rank_3.log",
    "node_rank_2.log",
    "node12.log",
    "h200-07.log",
    "worker-0.log",
    "checkpoint_1000.pkl",
    "step_500.json",
    "train.log.1",
    "2026-11-21.log",
    "3.log",
    "dump_3_trace_4",
    "",
    "rank_99999999999999999999",
]


@pytest.mark.parametrize(("name", "rank"), TOLD.items())
def test_a_name_that_tells_its_rank_is_understood(name: str, rank: int) -> None:
    assert rank_from_name(name) == rank
    assert rank_from_name(Path(name)) == rank


@pytest.mark.parametrize("name", NOT_TOLD)
def test_a_name_that_can_be_read_in_two_ways_tells_nothing(name: str) -> None:
    assert rank_from_name(name) is None


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("node12_rank_3", "node12"),
        ("nccl_trace_rank_3.gpu-host-17", "gpu-host-17"),
        ("h200-07_dump_3", "h200-07"),
        ("nccl_trace_rank_3", None),
        ("comm_lib_trace_rank_3", None),
        ("rank_3.pyspy.txt", None),
        ("_dump_7", None),
        ("rank3.log", None),
    ],
)
def test_the_host_is_read_only_where_a_host_stands(name: str, host: str | None) -> None:
    assert host_from_name(name) == host
