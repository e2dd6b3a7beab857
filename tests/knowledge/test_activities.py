"""The table of what library frames mean keeps its contract, and never speaks about the user's own names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import unhang
from unhang.errors import KnowledgeError
from unhang.findings import Phase
from unhang.knowledge.activities import ActivityRow, activity_table, bare_function, build_table, match_example
from unhang.knowledge.libraries import is_library_file, is_unknown_package, module_path
from unhang.knowledge.tables import typed_rows

GOOD: dict[str, Any] = {
    "what": "torch-save",
    "phase": "save",
    "priority": 80,
    "files": ["torch/serialization.py"],
    "functions": ["save"],
    "example": "save (torch/serialization.py:967)",
    "source": "torch",
}


def table_of(*rows: dict[str, Any]) -> None:
    build_table(typed_rows("activities.toml", rows, ActivityRow))


def test_every_row_matches_its_own_example() -> None:
    table = activity_table()
    assert len(table.rows) > 80
    for row in table.rows:
        found = match_example(table, row.example)
        assert found is not None
        assert (found.what, found.phase) == (row.what, row.phase), row.example


def test_one_activity_has_one_phase_and_every_collective_its_operation() -> None:
    for row in activity_table().rows:
        if row.what == "collective":
            assert row.phase is Phase.COMMUNICATION
            assert row.operation
        else:
            assert row.operation is None
        assert row.source


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"phase": "working"}, "Invalid enum value 'working'"),
        ({"extra": 1}, "what is not known: extra"),
        ({"files": []}, "must be given together"),
        ({"files": [], "functions": []}, "nothing to match"),
        ({"example": "load (torch/serialization.py:9)"}, "is the example of torch-save"),
        ({"files": ["train.py"], "example": "save (train.py:9)"}, "not the file of a library"),
    ],
)
def test_a_row_that_breaks_the_contract_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(KnowledgeError, match=complaint):
        table_of({**GOOD, **change})


def test_a_row_without_source_is_refused() -> None:
    with pytest.raises(KnowledgeError, match="it lacks: source"):
        table_of({key: value for key, value in GOOD.items() if key != "source"})


def test_two_rows_may_not_claim_one_call() -> None:
    row = {**GOOD, "calls": ["time.sleep"]}
    with pytest.raises(KnowledgeError, match="appears in two rows"):
        table_of(row, {**row, "what": "other"})


@pytest.mark.parametrize(
    ("function", "bare"),
    [
        ("main", "main"),
        ("Queue.get", "get"),
        ("prof.<locals>.wrap.<locals>.wrapper", "wrapper"),
        ("<module>", "<module>"),
        ("main.<locals>.<lambda>", "<lambda>"),
        ("C.f.<locals>.<listcomp>", "<listcomp>"),
    ],
)
def test_qualified_names_are_made_bare(function: str, bare: str) -> None:
    assert bare_function(function) == bare


LIBRARY = [
    "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py",
    "/usr/lib/python3/dist-packages/yaml/__init__.py",
    "/usr/lib/python3.11/threading.py",
    "/root/miniconda3/lib/python3.10/multiprocessing/queues.py",
    "C:\\Python311\\Lib\\site-packages\\torch\\serialization.py",
    "/home/user/pytorch/torch/distributed/distributed_c10d.py",
    "threading.py",
    "selectors.py",
    "multiprocessing/connection.py",
    "torch/utils/data/dataloader.py",
    "accelerate/state.py",
    "<frozen importlib._bootstrap>",
    "<string>",
    "",
    "torchrun",
    "unhang_lab/worker.py",
    "/opt/venv/lib/python3.11/site-packages/unhang/watch/run.py",
    "tqdm/std.py",
]
OWN = [
    "train.py",
    "./train.py",
    "../src/train.py",
    "models/net.py",
    "/home/user/job/train.py",
    "/home/user/torch/train.py",
    "/workspace/transformers_finetune/run.py",
    "/home/user/job/queue.py",
    "code/train.py",
    "test/train.py",
    "megatron/training/training.py",
    "/work/src/unhang/lab/cases/uneven.py",
    "/opt/venv/lib/python3.11/site-packages/unhang/lab/cases/uneven.py",
    "/home/user/unhang/train.py",
    "/tmp/ipykernel_12/345.py",
    "<stdin>",
    "C:\\job\\train.py",
    "train_gpt",
]


@pytest.mark.parametrize("path", LIBRARY)
def test_files_of_libraries(path: str) -> None:
    assert is_library_file(path)


@pytest.mark.parametrize("path", OWN)
def test_files_of_the_user(path: str) -> None:
    assert not is_library_file(path)


def test_an_installed_package_nobody_knows_may_be_the_program_itself() -> None:
    assert is_unknown_package("/opt/venv/lib/python3.11/site-packages/mytrainer/run.py")
    assert not is_unknown_package("/opt/venv/lib/python3.11/site-packages/torch/serialization.py")
    assert not is_unknown_package("/home/user/job/train.py")
    assert module_path("/opt/venv/lib/python3.11/site-packages/torch/hub.py") == "torch/hub.py"


@pytest.mark.parametrize(
    ("function", "file"),
    [
        ("all_reduce", "train.py"),
        ("all_reduce", "mylib/distributed_c10d.py"),
        ("all_reduce_metrics", "torch/distributed/distributed_c10d.py"),
        ("get_rank", "torch/distributed/distributed_c10d.py"),
        ("tokenize", "data/tokenize_data.py"),
        ("save", "torch/serialization_helpers.py"),
        ("wait", "threads.py"),
    ],
)
def test_a_frame_that_looks_alike_means_nothing(function: str, file: str) -> None:
    assert activity_table().of_python(function, file) is None


@pytest.mark.parametrize("function", ["pollster", "my_nanosleep", "fsyncer", "ncclAllReduceTest", "main", "usleeper"])
def test_a_native_name_that_looks_alike_means_nothing(function: str) -> None:
    assert activity_table().of_native(function) is None


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("time.sleep", "sleep"),
        ("sleep", "sleep"),
        ("loss.item", "device-sync"),
        (".item", "device-sync"),
        ("lock.acquire", "lock-wait"),
        ("f.write", "file-io"),
        ("open", "file-io"),
        ("gc.collect", "garbage-collection"),
        ("input", "debugger"),
    ],
)
def test_calls_on_the_users_line(call: str, what: str) -> None:
    row = activity_table().of_call(call)
    assert row is not None
    assert row.what == what


@pytest.mark.parametrize("call", ["my.sleeping", "model", "train_step", "item", "x.append", ""])
def test_calls_that_mean_nothing(call: str) -> None:
    assert activity_table().of_call(call) is None


def test_frames_of_every_room_are_ours_wherever_unhang_lies() -> None:
    source = Path(unhang.__file__).parents[1]
    folders = [folder for folder in source.glob("unhang*/*") if (folder / "__init__.py").exists()]

    assert [f for f in folders if not is_library_file(f"/home/me/{f.relative_to(source)}/a.py")] == []
    assert not is_library_file("/home/me/unhang/train.py")
    assert not is_library_file("/home/me/unhang/stories/grpo/train.py")
