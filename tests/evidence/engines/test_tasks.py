"""Files become tasks of about the same cost, in their order, each file in one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from unhang.evidence.engines.tasks import FILE_COST, MOST, TASKS_A_WORKER, PlacedFile, ReadTask, tasks_of
from unhang.evidence.found_files import FoundFile
from unhang.evidence.read_limits import DEFAULT_LIMITS

MIB = 1 << 20


def files(*sizes: int) -> list[PlacedFile]:
    return [
        (at, FoundFile(Path(f"{at}.log"), f"{at}.log", size, 0.0, Path(), (1, at))) for at, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    "sizes",
    [[0], [MIB] * 3, [MIB] * 1_000, [0] * 5_000, [900 * MIB, *[MIB] * 100], [1, 500 * MIB] * 20, []],
    ids=["one", "few", "many", "empty ones", "a big one first", "big and small in turns", "none"],
)
@pytest.mark.parametrize("workers", [1, 2, 8])
def test_every_file_is_in_one_task_and_tasks_are_few(sizes: list[int], workers: int) -> None:
    given = files(*sizes)

    tasks = tasks_of(given, workers)

    assert [one for task in tasks for one in task] == given
    fair = min(MOST, (sum(sizes) or 1) / (workers * TASKS_A_WORKER))
    big = sum(size >= fair for size in sizes)
    whole = sum(sizes) + FILE_COST * len(sizes)
    assert len(tasks) <= max(workers * TASKS_A_WORKER, whole / MOST) + 2 * big + 1
    assert all(sum(file.size for _, file in task[:-1]) <= MOST for task in tasks)


def test_a_big_file_is_a_task_alone_and_small_ones_go_together() -> None:
    tasks = tasks_of(files(MIB, MIB, 2_000 * MIB, MIB, MIB), workers=4)

    assert [[at for at, _ in task] for task in tasks] == [[0, 1], [2], [3, 4]]


def test_tasks_of_equal_files_are_equal() -> None:
    assert {len(task) for task in tasks_of(files(*[MIB] * 64), workers=4)} == {4}


def test_a_part_of_a_task_keeps_how_much_of_its_logs_is_to_be_read() -> None:
    task = ReadTask(tuple(files(MIB, MIB, MIB)), DEFAULT_LIMITS, {"0.log": 5, "2.log": 7})

    assert [dict(one.log_bytes) for one in task.singles()] == [{"0.log": 5}, {}, {"2.log": 7}]
    assert [one.place for one in task.singles()] == [0, 1, 2]
