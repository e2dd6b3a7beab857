"""An exception that stands in the log of all ranks and in the file of its own is one."""

from __future__ import annotations

from dataclasses import replace

from unhang.evidence.items import Frame, PythonTraceback
from unhang.facts.endings.traceback_echoes import is_echo, unique_tracebacks
from unhang.facts.rank_table import assign_ranks_by_process
from unhang.findings import Cause, Source
from unhang.knowledge.failure_language import find_failure_statement
from unhang.wire.documents.bundle import BundleManifest, RankProcess

LOOKUP = Frame("train", "/job/train.py", 11)


def raised(path: str, rank: int | None, message: str = "60", line: int = 3, frame: Frame = LOOKUP) -> PythonTraceback:
    return PythonTraceback(Source(path, line), rank, None, "KeyError", message, (frame,), "trainer")


def places(*tracebacks: PythonTraceback) -> list[tuple[str, int | None]]:
    return [(one.source.path, one.rank) for one in unique_tracebacks(tracebacks)]


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


def test_the_process_that_raised_it_tells_the_rank() -> None:
    manifest = BundleManifest(
        source=Source("bundle.json"), world_size=2, processes=(RankProcess(0, pid=70), RankProcess(1, pid=71))
    )
    told = (replace(raised("launcher.log", None), pid=71), replace(raised("launcher.log", None), pid=99))

    assert [one.rank for one in assign_ranks_by_process(told, [manifest])] == [1, None]


def test_that_a_worker_of_ray_died_is_its_echo_in_who_asked() -> None:
    hint = "The actor died unexpectedly. Some common causes include: (1) it was killed by the OOM killer"
    told = replace(raised("launcher.log", None), exception="ray.exceptions.ActorDiedError", message=hint)

    assert is_echo(told)
    said = find_failure_statement(hint, raised=True)
    assert said is not None
    assert said.row.cause is not Cause.HOST_MEMORY
