"""Who was named again, of how many runs, and the chance that it is chance."""

from __future__ import annotations

import math
import random
import time
from pathlib import Path
from typing import Any

import pytest

from unhang.history.database import open_history
from unhang.history.place import HistoryPlace
from unhang.history.run import PastRun, RunFinding, TookPart, took_part
from unhang.history.suspects import Suspect, chance_of
from unhang.history.text import named_again, suspect_text
from unhang.report.language import translate
from unhang.wire.documents.run_settings import RunSettings

NOW = time.time()
CARD = "GPU-01234567-89ab-cdef-0123-456789abcdef"


def run(*hosts: str, named: str = "", days_ago: float = 1.0, cards: tuple[str, ...] = (), **more: Any) -> PastRun:
    at = NOW - days_ago * 86_400
    told = RunFinding("gpu-hardware", "likely", "hang", (3,), (named,), cards, "t.py:5", "it failed")
    verdicts = (told,) if named else ()
    return PastRun("/r", "torchrun t.py", "/", at - 9, at, "good", tuple(hosts), verdicts=verdicts, **more)


def fill(place: HistoryPlace, *runs: PastRun) -> list[Suspect]:
    with open_history(place, to_write=True) as history:
        for one in runs:
            history.add(one)
        return history.suspects(30)


def test_three_of_twelve(place: HistoryPlace) -> None:
    """Ten hosts with twelve runs each, of two hosts a run; three runs named one, and it was the same each time."""
    pairs = [(f"h{2 * at}", f"h{2 * at + 1}") for at in range(5)]
    quiet = [run(*pair) for pair in pairs for _ in range(12 if pair[0] != "h4" else 9)]

    found = fill(place, *quiet, *[run("h4", "h5", named="h4") for _ in range(3)])

    # all three namings fall on one of ten hosts: (1/10)^3, times ten hosts that were looked at
    assert [(one.name, one.runs, one.of, one.chance) for one in found] == [("h4", 3, 12, pytest.approx(0.01))]
    said = suspect_text(found[0])
    assert str(said).startswith("3 of 12 runs named h4, last on ")
    assert str(said).endswith(": gpu-hardware; by chance 1 in 100")
    assert "1/100" in translate(said, "zh")


def test_runs_outside_the_window_do_not_count(place: HistoryPlace) -> None:
    found = fill(place, run("h1", "h2", named="h1", days_ago=31), run("h1", "h2", named="h1"), run("h1", "h2"))

    assert [(one.runs, one.of) for one in found] == [(1, 2)]


def test_a_single_host_says_nothing_about_chance(place: HistoryPlace) -> None:
    found = fill(place, *[run("h1", named="h1") for _ in range(3)])

    assert [(one.runs, one.of, one.chance) for one in found] == [(3, 3, None)]
    assert str(suspect_text(found[0])).endswith("gpu-hardware")


def test_a_card_took_part_where_its_host_did(place: HistoryPlace) -> None:
    named = [run("h1", "h2", named="h1", cards=(CARD, "h1 0000:3b:00")) for _ in range(2)]

    found = {one.name: one for one in fill(place, *named, run("h1", "h2"), run("h2", "h3"))}

    assert {name: (one.kind, one.runs, one.of) for name, one in found.items()} == {
        "h1": ("host", 2, 3),
        CARD: ("card", 2, 3),
        "h1 0000:3b:00": ("card", 2, 3),
    }
    assert found[CARD].chance is not None
    assert found["h1"].chance is not None
    assert found[CARD].chance >= found["h1"].chance  # four namings of cards, two of hosts


def test_an_image_is_named_by_what_happens_in_it(place: HistoryPlace) -> None:
    def settings(image: str) -> str:
        return RunSettings(environment={"APPTAINER_CONTAINER": image}).json().decode()

    bad = [run("h1", "h2", named=f"h{at}", settings=settings("/bad.sif")) for at in (1, 2, 1)]
    well = [run("h1", "h2", settings=settings("/good.sif")) for _ in range(9)]

    found = [one for one in fill(place, *bad, *well) if one.kind == "image"]

    assert [(one.name, one.runs, one.of) for one in found] == [("/bad.sif", 3, 3)]
    assert found[0].chance == pytest.approx(2 * (3 / 12) ** 3)


def test_who_is_named_twice_in_a_run_was_named_by_one(place: HistoryPlace) -> None:
    told = RunFinding("slow-rank", "likely", "slow", (0,), ("h1",), (), "", "slow")
    both = PastRun(
        "/r", "t.py", "/", NOW - 9, NOW, "stalled", ("h1", "h2"), verdicts=(told, run("x", named="h1").verdicts[0])
    )

    assert [(one.cause, one.runs) for one in fill(place, both)] == [("slow-rank", 1)]  # its last verdict's


def test_a_host_that_only_was_there_is_not_named() -> None:
    told = RunFinding("uneven-data", "likely", "hang", (0,), ("h1",), (), "", "uneven")

    assert took_part(PastRun("/r", "t.py", "/", 1.0, 2.0, "stalled", ("h1",), verdicts=(told,))) == [
        TookPart("host", "h1", "h1")
    ]


@pytest.mark.parametrize(
    ("named", "draws", "share", "looked_at"), [(3, 20, 0.05, 1), (2, 9, 0.3, 1), (40, 900, 0.02, 1)]
)
def test_the_chance_is_the_binomial_tail(named: int, draws: int, share: float, looked_at: int) -> None:
    below = sum(math.comb(draws, k) * share**k * (1 - share) ** (draws - k) for k in range(named))

    assert chance_of(named, draws, share, looked_at) == pytest.approx(1 - below, rel=1e-6)


def test_where_guilt_falls_by_chance_few_are_suspects_by_it() -> None:
    """A hundred clusters in which nothing is wrong: in at most one of ten a host seems to be (by 1 in 20)."""
    dice, wrong = random.Random(7), 0
    for _ in range(100):
        took = [dice.randrange(5, 40) for _ in range(50)]
        at = [host for host, runs in enumerate(took) for _ in range(runs)]
        named = [dice.choice(at) for _ in range(30)]
        wrong += any(chance_of(named.count(host), 30, took[host] / len(at), 50) < 0.05 for host in set(named))

    assert wrong <= 10


def test_many_hosts_and_namings_take_no_time_and_no_overflow() -> None:
    assert chance_of(50_000, 200_000, 1e-4, 20_000) == 0.0
    assert chance_of(25, 200_000, 1e-4, 1) == pytest.approx(0.157, abs=0.01)
    assert chance_of(1, 200_000, 1e-4, 20_000) == 1.0


def test_what_chance_explains_least_comes_first() -> None:
    ones = [Suspect("host", name, "slow-rank", runs, 9, 1.0, chance) for name, runs, chance in
            (("a", 5, 0.4), ("b", 2, 0.001), ("c", 3, None), ("d", 1, 0.0))]  # fmt: skip

    assert [one.name for one in named_again(ones)] == ["b", "a", "c"]
    assert str(suspect_text(ones[3])).endswith("by chance 1 in 1,000,000+")


def test_the_json_has_the_numbers(place: HistoryPlace, tmp_path: Path) -> None:
    from unhang.history.text import as_json

    suspects = fill(place, run("h1", "h2", named="h1"))

    assert '"runs": 1,\n   "of": 1,' in as_json([], suspects, [], "en")
