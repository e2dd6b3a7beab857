"""Names of an engine's workers tell their ranks, where they can."""

from __future__ import annotations

import pytest

from unhang.evidence.logs.lines.parallel_places import ParallelPlaces, place_of
from unhang.evidence.logs.lines.prefixes import PrefixReader


def places(*programs: str) -> ParallelPlaces:
    learned = ParallelPlaces()
    for program in programs:
        learned.add(program)
    return learned


@pytest.mark.parametrize(
    ("program", "place"),
    [
        ("Worker_DP1_TP0_EP4", {"DP": 1, "TP": 0, "EP": 4}),
        ("DP1 TP3", {"DP": 1, "TP": 3}),
        ("TP0", {"TP": 0}),
        ("scheduler_TP5", {"TP": 5}),
        ("EngineCore_DP0", {}),
        ("RayTrainWorker", {}),
        ("WorkerDict", {}),
    ],
)
def test_only_workers_have_a_place(program: str, place: dict[str, int]) -> None:
    assert place_of(program) == place


def test_ranks_count_the_last_dimension_fastest() -> None:
    learned = places(*(f"Worker_DP{dp}_TP{tp}" for dp in range(2) for tp in range(4)))

    assert [learned.rank_of(f"Worker_DP{dp}_TP{tp}") for dp in range(2) for tp in range(4)] == list(range(8))


def test_a_dimension_of_which_one_place_spoke_has_no_known_size() -> None:
    assert places("Worker_DP0_TP0", "Worker_DP1_TP0").rank_of("Worker_DP1_TP0") is None
    assert places("Worker_DP1_TP0_EP4").rank_of("Worker_DP1_TP0_EP4") == 4
    assert places("EngineCore_DP0").rank_of("EngineCore_DP0") is None


def test_an_engines_prefix_dates_its_line_and_names_who_spoke() -> None:
    said = PrefixReader("").read("[2026-08-02 19:08:31 DP1 TP0] Load weight begin. avail mem=78.86 GB")

    assert (said.speaker.program, said.text) == ("DP1 TP0", "Load weight begin. avail mem=78.86 GB")
    assert said.dated == "2026-08-02 19:08:31"


def test_a_logger_before_each_line_of_a_traceback_is_no_part_of_it() -> None:
    reader = PrefixReader("")
    head = "(EngineCore_DP0 pid=71388) ERROR 06-02 16:48:02 [core.py:1138] "
    texts = ["Traceback (most recent call last):", '  File "a.py", line 3, in run']

    assert [reader.read(head + text).text for text in texts] == texts
    assert reader.read(head + "EngineCore encountered a fatal error.").text.startswith("ERROR 06-02")
