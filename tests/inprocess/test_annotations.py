"""What a program says of itself is there for whoever looks, and costs next to nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from unhang.inprocess import annotations as marked
from unhang.inprocess import steps
from unhang.wire.record_views import GroupProgress, RecordView

HERE = threading.get_ident()


@pytest.fixture(autouse=True)
def nothing_said() -> Iterator[None]:
    marked.reset_annotations()
    yield
    marked.reset_annotations()


def test_marks_stand_outermost_first_until_they_end() -> None:
    outer = marked.enter("evaluation", "eval", 60.0)
    marked.enter("upload", "save")

    assert [(mark.label, mark.phase, mark.at_most_s) for mark in marked.marks(HERE)] == [
        ("evaluation", "eval", 60.0),
        ("upload", "save", None),
    ]
    marked.leave()
    assert marked.marks(HERE) == (outer,)
    marked.leave(outer)
    assert marked.marks(HERE) == ()


def test_a_mark_that_ends_takes_what_was_left_open_inside_it_along() -> None:
    outer = marked.enter("evaluation", "eval")
    marked.enter("never left", "save")

    marked.leave(outer)

    assert marked.marks(HERE) == ()
    assert {label: spent.times for label, spent in marked.spent().items()} == {"evaluation": 1, "never left": 1}


def test_leaving_what_is_not_open_does_nothing() -> None:
    mark = marked.enter("evaluation", "eval")
    marked.leave(mark)
    outer = marked.enter("save", "save")

    marked.leave(mark)

    assert marked.marks(HERE) == (outer,)
    marked.leave()
    marked.leave()


def test_time_belongs_to_the_innermost_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = iter((0, 10, 40, 100))
    monkeypatch.setattr("unhang.inprocess.annotations.time.monotonic_ns", lambda: next(now_ns))
    marked.enter("evaluation", "eval")
    marked.enter("upload", "save")
    marked.leave()
    marked.leave()

    assert {label: spent.ns for label, spent in marked.spent().items()} == {"upload": 30, "evaluation": 70}


def test_labels_that_never_repeat_do_not_fill_the_memory() -> None:
    for number in range(10 * marked.MAX_LABELS):
        marked.enter(f"step {number}")
        marked.leave()

    spent = marked.spent()
    assert len(spent) <= marked.MAX_LABELS + 1
    assert sum(one.times for one in spent.values()) == 10 * marked.MAX_LABELS


def test_another_threads_marks_are_seen_where_the_asked_one_has_none() -> None:
    there, leave = threading.Event(), threading.Event()

    def work() -> None:
        marked.enter("evaluation", "eval")
        marked.begin_wait("dataset", [0])
        there.set()
        leave.wait(60)
        marked.end_wait()
        marked.leave()

    thread = threading.Thread(target=work)
    thread.start()
    there.wait(60)
    seen = [mark.label for mark in marked.marks(HERE)], marked.wait(HERE)
    own = marked.enter("mine")
    assert marked.marks(HERE) == (own,)
    leave.set()
    thread.join()
    assert seen[0] == ["evaluation"]
    assert seen[1] is not None
    assert seen[1].ranks == (0,)
    marked.leave()
    assert (marked.marks(HERE), marked.wait(HERE)) == ((), None)


def test_a_wait_goes_on_when_fewer_ranks_are_missing() -> None:
    marked.begin_wait("together: save", (1, 2, 3))
    first = marked.wait(HERE)
    marked.begin_wait("together: save", (3,))
    second = marked.wait(HERE)

    assert first is not None
    assert second is not None
    assert (second.ranks, second.since_ns) == ((3,), first.since_ns)


def test_counted_steps_take_the_place_of_the_guessed_rhythm() -> None:
    view, rhythm = RecordView(groups=[GroupProgress("0", 2, enqueued=100)]), steps.StepCounter()
    rhythm.follow(view, 5, 1)
    assert view.step_source == "rhythm"

    for _ in range(7):
        marked.step()
    rhythm.follow(view, 5, 2)

    assert (view.step_source, view.steps) == ("guards", 7)
