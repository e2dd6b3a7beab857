"""Calls are followed to a barrier through what a program hands round: functions, classes, tables, arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.check.risks.program.ways_programs import HEAD, ask, parted

pytestmark = pytest.mark.usefixtures("in_its_folder")

KINDS = (
    "class Base:\n    def put_away(self):\n        raise NotImplementedError\n"
    "class Plain(Base):\n    def put_away(self):\n        print(1)\n"
    "class Shared(Base):\n    def put_away(self):\n        dist.barrier()\n"
    "class Stranger:\n    def put_away(self):\n        print(2)\n"
)
"""Two kinds of trainers, and a class that has a method of the same name."""
ONE_RANK = "if dist.get_rank() == 0:\n    trainer.put_away()\nprint(3)\ndist.all_reduce(x)\n"

GIVEN = {
    "a function that makes a function": (
        "def maker(kind):\n    def make():\n        return {kind}()\n    return make\n"
        "make = maker(1)\ntrainer = make()\n"
    ),
    "a function that gives back a class": (
        "def kind_of(name):\n    if name:\n        return {kind}\n    return {kind}\ntrainer = kind_of(1)()\n"
    ),
    "a table of classes": 'KINDS = {{"one": {kind}}}\ntrainer = KINDS["one"]()\n',
    "a table that is asked": 'KINDS = {{"one": {kind}}}\ntrainer = KINDS.get("one")()\n',
    "functools.partial": (
        "from functools import partial\ndef build(at):\n    return {kind}()\n"
        "make = partial(build, 1)\ntrainer = make()\n"
    ),
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_where_an_object_comes_from(given: str, tmp_path: Path) -> None:
    assert parted(ask(tmp_path, t=HEAD + KINDS + given.format(kind="Shared") + ONE_RANK)) != []
    assert parted(ask(tmp_path, t=HEAD + KINDS + given.format(kind="Plain") + ONE_RANK)) == []


def test_what_callers_give(tmp_path: Path) -> None:
    end = (
        "def close(it):\n    if dist.get_rank() == 0:\n        it.put_away()\n    dist.all_reduce(x)\nclose({kind}())\n"
    )

    assert parted(ask(tmp_path, t=HEAD + KINDS + end.format(kind="Shared"))) != []
    assert parted(ask(tmp_path, t=HEAD + KINDS + end.format(kind="Stranger"))) == []


@pytest.mark.parametrize(("made", "count"), [("Shared", 1), ("Plain", 0)])
def test_self_in_a_base_is_what_the_program_makes(made: str, count: int, tmp_path: Path) -> None:
    base = (
        "class Base:\n    def close(self):\n        if dist.get_rank() == 0:\n            self.finish()\n"
        "        dist.all_reduce(x)\n    def finish(self):\n        print(1)\n"
        "class Plain(Base):\n    pass\n"
        "class Shared(Base):\n    def finish(self):\n        dist.barrier()\n"
    )

    assert len(parted(ask(tmp_path, t=f"{HEAD}{base}{made}().close()\n"))) == count


def test_one_family_of_classes_is_one_answer(tmp_path: Path) -> None:
    """The object comes out of a registry; all that have the method descend from one class."""
    family, _, stranger = KINDS.partition("class Stranger")
    end = "trainer = registry.build(config)\n" + ONE_RANK

    assert parted(ask(tmp_path, t=HEAD + family + end)) != []
    assert parted(ask(tmp_path, t=HEAD + family + "class Stranger" + stranger + end)) == []


ROWS = (
    "class Rows:\n    def __init__(self, rank):\n        self.rank, self.at, self.shard = rank, 0, 0\n"
    "    def take(self):\n        rows = self.rows[self.at + self.rank :]\n"
    "        if len(rows) != 8:\n            {leaves}\n"
    "        self.shard = self.shard + 1\n        if self.shard == 3:\n            dist.barrier()\n"
    "Rows(dist.get_rank()).take()\n"
)


@pytest.mark.parametrize(("leaves", "count"), [("raise ValueError", 0), ("return", 1)])
def test_an_exception_of_one_rank_does_not_make_what_follows_its_own(leaves: str, count: int, tmp_path: Path) -> None:
    assert min(len(parted(ask(tmp_path, t=HEAD + ROWS.format(leaves=leaves)))), 1) == count
