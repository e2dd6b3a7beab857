"""Numbers that may only get better: ``tests/ratchets.toml`` holds what they have come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import pytest

from scripts import ratchets
from scripts.house import HERE, House

WHAT_TO_DO = {
    "lines": "take out as much elsewhere in the room; most often something there does the same already; "
    "what is new raises the budget, in a commit of its own",
    "crowded_folders": "part the folder by what its modules are about, or join small ones that belong together",
    "long_files": "part the file by what its functions are about",
    "mean": "put a small module into the one that imports it, rather than add another",
    "one_importer": "put the module into the one that imports it, if both together read well",
    "certainties": "let the signal's grade decide (diagnosis/grades.py), or a row of knowledge/",
    "causes_of_others": "say only what points to the detector's own cause; diagnosis/ decides between causes",
    "words": "say it as one engineer would to another; scripts/ratchets.py has the words and what counts as one",
}


@cache
def house() -> House:
    return House.at(HERE)


@cache
def found(ratchet: str) -> Mapping[str, int]:
    return ratchets.RATCHETS[ratchet][0](house())


@pytest.mark.parametrize("ratchet", ratchets.RATCHETS)
def test_it_got_no_worse(ratchet: str) -> None:
    worse = changed(ratchet, lambda is_, was: ratchets.better(ratchet, was, is_))

    assert worse == [], f"{ratchets.RATCHETS[ratchet][1]}. What to do: {WHAT_TO_DO[ratchet]}."


@pytest.mark.parametrize("ratchet", ratchets.RATCHETS)
def test_what_got_better_is_written_down(ratchet: str) -> None:
    gained = changed(ratchet, lambda is_, was: ratchets.better(ratchet, is_, was))

    assert gained == [], f"{ratchets.RATCHETS[ratchet][1]}. It got better; so that it stays so: {ratchets.COMMAND}"


def changed(ratchet: str, differs: Callable[[int, int], bool]) -> list[str]:
    now, recorded = found(ratchet), ratchets.recorded()[ratchet]
    numbers = {key: (now.get(key, 0), recorded.get(key, 0)) for key in sorted(now.keys() | recorded.keys())}
    return [f"{key} is {is_}, recorded is {was}" for key, (is_, was) in numbers.items() if differs(is_, was)]


def test_only_what_got_better_is_written() -> None:
    assert ratchets.improved("lines", {"facts": 50, "watch": 200, "new": 50}, {"facts": 100, "watch": 150}) == {
        "facts": 50,
        "watch": 150,
    }
    assert ratchets.improved("words", {}, {"told": 3}) == {}
    assert ratchets.improved("mean", {"lines a file": 120}, {"lines a file": 110}) == {"lines a file": 120}


def test_the_file_is_written_as_it_is_read() -> None:
    written = ratchets.written(ratchets.head_of(ratchets.RECORDED), ratchets.recorded())

    assert written == ratchets.RECORDED.read_text("utf-8")


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("{ranks:who} {ranks:stands|stand} at line {line}", ["stands"]),
        ("in {times} looks of {ranks:who}", ["a look"]),
        ("{late:who} looks at the ranks; look again", []),
        ("{told}, and the job went on", []),
        ("Mend what the exception says", ["mend"]),
    ],
)
def test_words_are_found_in_templates(sentence: str, words: list[str]) -> None:
    assert [word for word, times in ratchets.counted_words([sentence]).items() if times] == words
