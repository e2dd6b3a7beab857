"""Marking a phase says what goes on, and changes nothing else."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from unhang.errors import UsageError
from unhang.guards.phases import phase, step
from unhang.inprocess import annotations as marked


@pytest.fixture(autouse=True)
def nothing_said() -> Iterator[None]:
    marked.reset_annotations()
    yield
    marked.reset_annotations()


def open_marks() -> list[tuple[str, str, float | None]]:
    return [(mark.label, mark.phase, mark.at_most_s) for mark in marked.marks(threading.get_ident())]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("evaluation", "eval"),
        ("Validation", "eval"),
        ("checkpoint", "save"),
        ("tokenisation", "data"),
        ("mine", "other"),
    ],
)
def test_known_names_are_the_phases_of_the_report(name: str, word: str) -> None:
    with phase(name, at_most_s=90):
        assert open_marks() == [(name, word, 90)]

    assert open_marks() == []


def test_phases_nest_and_end_with_an_exception() -> None:
    def evaluate() -> None:
        with phase("evaluation"), phase("save", at_most_s=5.0):
            assert [label for label, _, _ in open_marks()] == ["evaluation", "save"]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        evaluate()

    assert open_marks() == []


def test_a_function_can_be_a_phase_and_call_itself() -> None:
    seen: list[int] = []

    @phase("evaluation", at_most_s=60)
    def evaluate(depth: int) -> str:
        """Say so."""
        seen.append(len(open_marks()))
        return evaluate(depth - 1) if depth else "done"

    assert evaluate(2) == "done"
    assert evaluate.__doc__ == "Say so."
    assert (seen, open_marks()) == ([1, 2, 3], [])


def test_one_phase_object_serves_several_threads() -> None:
    shared, both = phase("evaluation"), threading.Barrier(2)
    ended: list[tuple[marked.OpenPhase, ...]] = []

    def work() -> None:
        with shared:
            both.wait(60)
        both.wait(60)
        ended.append(marked.marks(threading.get_ident()))
        both.wait(60)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert ended == [(), ()]


@pytest.mark.parametrize(
    ("name", "at_most_s"), [("", None), ("  ", 3), ("evaluation", 0), ("e", -1), ("e", float("nan"))]
)
def test_a_mark_that_says_nothing_is_refused(name: str, at_most_s: float | None) -> None:
    with pytest.raises(UsageError):
        phase(name, at_most_s=at_most_s)


def test_steps_are_counted() -> None:
    for _ in range(3):
        step()

    assert marked.steps()[0] == 3


def test_marking_loads_neither_torch_nor_anything_heavy() -> None:
    code = "import sys, unhang.guards.phases; print(*sorted(sys.modules))"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout

    assert not {"torch", "numpy", "rich", "msgspec"} & set(loaded.split())
