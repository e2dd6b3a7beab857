"""An exception that stands in the log of all ranks and in the file of its own is one."""

from __future__ import annotations

from unhang.evidence.items import Frame, PythonTraceback
from unhang.facts.same_traceback import told_once
from unhang.findings import Source

LOOKUP = Frame("train", "/job/train.py", 11)


def raised(path: str, rank: int | None, message: str = "60", line: int = 3, frame: Frame = LOOKUP) -> PythonTraceback:
    return PythonTraceback(Source(path, line), rank, None, "KeyError", message, (frame,), "trainer")


def places(*tracebacks: PythonTraceback) -> list[tuple[str, int | None]]:
    return [(one.source.path, one.rank) for one in told_once(tracebacks)]


def test_the_log_tells_where_and_the_ranks_own_file_whose() -> None:
    assert places(raised("logs/launcher.log", None), raised("crash/rank_1.exception.log", 1)) == [
        ("logs/launcher.log", 1)
    ]


def test_two_ranks_that_raise_the_same_are_two() -> None:
    found = places(
        raised("launcher.log", None),
        raised("launcher.log", None, line=9),
        raised("crash/rank_0.exception.log", 0),
        raised("crash/rank_1.exception.log", 1),
    )

    assert found == [("launcher.log", 0), ("launcher.log", 1)]


def test_another_message_or_line_is_another_exception() -> None:
    own = raised("crash/rank_1.exception.log", 1)
    elsewhere = raised("launcher.log", None, frame=Frame("train", "/job/train.py", 12))

    assert len(places(own, raised("launcher.log", None, "61"), elsewhere)) == 3


def test_ranks_that_the_log_names_itself_stay() -> None:
    both = (raised("launcher.log", 0), raised("launcher.log", None))

    assert places(*both) == [("launcher.log", 0), ("launcher.log", None)]
