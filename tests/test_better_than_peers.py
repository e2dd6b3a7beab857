"""Faults of PyTorch's ``torchfrtrace`` and of NVIDIA's analyser on the same inputs, each with a test: none is ours."""

from __future__ import annotations

import itertools
import json
import os
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.facts.jobs import call
from unhang.cli.command_line import command_line
from unhang_lab.dump_writer import json_like_torch, make_dump, pickle_like_torch

AT, LAST = 41, 40


def dump_of(calls: list[dict[str, Any]], *, ranks: int = 4, first_record: int = 0) -> dict[str, Any]:
    entries = [dict(entry, record_id=first_record + number) for number, entry in enumerate(calls)]
    enqueued = max((e["collective_seq_id"] for e in entries), default=-1)
    completed = max((e["collective_seq_id"] for e in entries if e["state"] == "completed"), default=-1)
    groups = {"0": ("default_pg", range(ranks))}
    made: dict[str, Any] = make_dump("2.13", entries, groups=groups, status={"0": (enqueued, -1, completed)})
    return made


def waiter(**parts: Any) -> list[dict[str, Any]]:
    """Finished up to 40, unfinished in 41 at line 61 of the training loop."""
    return [*history(), call(AT, state="scheduled", line=61, **parts)]


def history(first: int = 35, upto: int = LAST) -> list[dict[str, Any]]:
    return [call(position, line=61) for position in range(first, upto + 1)]


def write(folder: Path, dumps: Iterable[dict[str, Any]], name: str = "nccl_trace_rank_{}") -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank, dump in enumerate(dumps):
        path = folder / name.format(rank)
        path.write_bytes(pickle_like_torch(dump))
        paths.append(path)
    return paths


def verdict(*paths: Path) -> tuple[int, dict[str, Any]]:
    run = CliRunner().invoke(command_line(), ["diagnose", *map(str, paths), "--format", "json"])
    assert run.stdout, run.stderr
    assert run.exception is None or isinstance(run.exception, SystemExit)
    return run.exit_code, json.loads(run.stdout)


def a_mismatch(guilty: int) -> list[dict[str, Any]]:
    return [dump_of(waiter(size=(9,) if rank == guilty else (8,))) for rank in range(4)]


def a_laggard(guilty: int) -> list[dict[str, Any]]:
    return [dump_of(history() if rank == guilty else waiter()) for rank in range(4)]


def test_all_ranks_joined_and_none_finished_is_said_and_exits_1(tmp_path: Path) -> None:
    """torchfrtrace prints nothing and exits 0."""
    write(tmp_path, [dump_of(waiter()) for _ in range(4)])

    code, told = verdict(tmp_path)

    first = told["findings"][0]
    assert code == 1
    assert (told["status"], first["cause"], first["ranks"]) == ("hang", "unknown", [])
    assert "all 4 ranks joined all_reduce #41" in first["summary"]


@pytest.mark.parametrize("guilty", [0, 3])
@pytest.mark.parametrize("job", [a_mismatch, a_laggard])
def test_it_does_not_matter_which_rank_is_guilty(tmp_path: Path, guilty: int, job: Any) -> None:
    """torchfrtrace blames the innocent when the guilty rank's file comes first."""
    write(tmp_path, job(guilty))

    code, told = verdict(tmp_path)

    assert code == 1
    assert told["findings"][0]["ranks"] == [guilty]


def test_the_order_of_the_files_does_not_matter(tmp_path: Path) -> None:
    paths = write(tmp_path, a_mismatch(0)[:3])

    told = [verdict(*order)[1] for order in itertools.permutations(paths, 3)]

    assert all(one["findings"] == told[0]["findings"] for one in told)
    assert told[0]["findings"][0]["ranks"] == [0]


def test_one_missing_file_is_named_and_the_rest_is_used(tmp_path: Path) -> None:
    """Both tools die."""
    write(tmp_path, a_mismatch(1))[3].unlink()

    code, told = verdict(tmp_path)

    assert code == 1
    assert told["ranks_missing"] == [3]
    assert told["findings"][0]["ranks"] == [1]
    assert told["findings"][0]["certainty"] != "certain"
    assert any("rank 3" in gap["what"] for gap in told["not_checked"])


@pytest.mark.parametrize("keep", [0, 1, 200, 0.5, 0.95])
def test_one_torn_file_is_named_and_the_rest_is_used(tmp_path: Path, keep: float) -> None:
    """Both tools die."""
    torn = write(tmp_path, a_mismatch(1))[3]
    whole = torn.read_bytes()
    torn.write_bytes(whole[: int(keep * len(whole)) if 0 < keep < 1 else int(keep)])

    code, told = verdict(tmp_path)

    assert code == 1
    assert told["findings"][0]["ranks"] == [1]
    assert told["ranks_missing"] == [3] or "nccl_trace_rank_3" in json.dumps(told["unread"])


@pytest.mark.parametrize(
    "name",
    ["nccl_trace_gpu-17-node3_rank_{}", "host42.cluster9.trace_rank_{}", "comm_lib_trace_rank_{}", "node7_dump_{}"],
)
def test_digits_in_a_host_name_are_no_rank(tmp_path: Path, name: str) -> None:
    """torchfrtrace takes what follows its prefix for the rank, and dies."""
    write(tmp_path, a_laggard(2), name)

    code, told = verdict(tmp_path)

    assert (code, told["ranks_seen"], told["findings"][0]["ranks"]) == (1, [0, 1, 2, 3], [2])


def test_skewed_record_ids_are_no_finding(tmp_path: Path) -> None:
    """NVIDIA's analyser reports six mismatches here: one rank recorded a call more before its ring wrapped."""
    skewed = [
        dump_of([call(p, size=(p % 7 + 1,)) for p in range(first, LAST + 1)], first_record=offset)
        for first, offset in ((1, 0), (20, 19), (25, 1000), (30, 3))
    ]
    write(tmp_path, skewed)

    code, told = verdict(tmp_path)

    assert (code, told["status"]) == (3, "unknown")  # nothing wrong in it; dumps alone show no health
    assert [(found["cause"], found["severity"]) for found in told["findings"]] == [("unknown", "note")]


def test_skewed_record_ids_leave_the_laggard_alone_guilty(tmp_path: Path) -> None:
    dumps = [
        dump_of(
            [
                *(call(p, size=(p % 7 + 1,)) for p in range(first, LAST + 1)),
                *([call(AT, size=(7,), state="scheduled")] if first != 25 else []),
            ],
            first_record=offset,
        )
        for first, offset in ((1, 0), (20, 19), (25, 1000), (30, 3))
    ]
    write(tmp_path, dumps)

    code, told = verdict(tmp_path)

    assert code == 1
    assert [(f["cause"], f["ranks"]) for f in told["findings"]] == [("unknown", [2])]


def test_a_native_gloo_dump_is_read(tmp_path: Path) -> None:
    """Both tools crash on it: its group is keyed by an empty name, and its finished calls stay ``scheduled``."""
    dumps = []
    for rank in range(3):
        reach = LAST if rank == 2 else AT
        calls = [call(p, state="scheduled", line=61, backend="gloo") for p in range(35, reach + 1)]
        dump = dump_of([dict(c, retired=c["collective_seq_id"] <= LAST) for c in calls], ranks=3)
        dump["pg_config"] = {"": {"name": "", "desc": "", "ranks": "[]"}}
        dump["pg_status"]["0"]["last_completed_collective"] = LAST
        dumps.append(dump)
    write(tmp_path, dumps, "gloo_trace_rank_{}")

    code, told = verdict(tmp_path)

    assert (code, told["world_size"], told["findings"][0]["ranks"]) == (1, 3, [2])


def test_a_finding_exits_1_and_nothing_found_does_not(tmp_path: Path) -> None:
    """torchfrtrace exits 0 with a finding."""
    write(tmp_path / "well", [dump_of(history()) for _ in range(4)])
    write(tmp_path / "ill", a_mismatch(2))
    for rank in range(4):
        steps = "".join(f"step {step} loss 1.0\n" for step in range(50))
        (tmp_path / "well" / f"rank{rank}.log").write_text(steps)

    assert verdict(tmp_path / "well")[0] == 3  # steps and dumps do not prove that it ended well
    assert verdict(tmp_path / "ill")[0] == 1


def test_json_dumps_are_read_like_pickles(tmp_path: Path) -> None:
    """torchfrtrace reads pickles only."""
    for rank, dump in enumerate(a_laggard(1)):
        (tmp_path / f"trace_{rank}.json").write_text(json_like_torch(dump))

    assert verdict(tmp_path)[1]["findings"][0]["ranks"] == [1]


def test_where_is_the_laggards_line_and_waiter_where_a_waiters(tmp_path: Path) -> None:
    """torchfrtrace shows a waiter's stack as the culprit's."""
    dumps = [dump_of(waiter()) for _ in range(3)]
    dumps.insert(0, dump_of([*history(), call(AT, "broadcast", state="scheduled", line=88)]))
    write(tmp_path, dumps)

    first = verdict(tmp_path)[1]["findings"][0]

    assert first["ranks"] == [0]
    assert (first["where"]["file"], first["where"]["line"]) == ("/job/train.py", 88)
    assert (first["waiter_where"]["file"], first["waiter_where"]["line"]) == ("/job/train.py", 61)


class Hostile:
    """Unpickling it runs a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


def test_a_hostile_dump_runs_nothing_and_is_named(tmp_path: Path) -> None:
    """Both tools run it."""
    proof = tmp_path / "it_ran"
    write(tmp_path / "dumps", a_mismatch(1))
    whole = dump_of(waiter())
    whole["entries"].append(Hostile(f"touch {proof}"))
    (tmp_path / "dumps" / "nccl_trace_rank_3").write_bytes(pickle.dumps(whole, protocol=2))

    code, told = verdict(tmp_path / "dumps")

    assert not proof.exists()
    assert code == 1
    assert told["findings"][0]["ranks"] == [1]
    assert "nccl_trace_rank_3" in json.dumps(told["not_checked"]) + json.dumps(told.get("unread", []))
