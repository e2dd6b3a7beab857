"""Lines of programs, and the template each is of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unhang.errors import KnowledgeError
from unhang.findings import Cause
from unhang.knowledge.templates import template_rows
from unhang.knowledge.templates.template_rows import find_templates, literal_pairs, occurs_in, row_of, word_pairs

ROWS = (
    "worker died\techo\t\telsewhere\terror\t1.0..2.0\ta.py:f\tThe worker died on node {}",
    "worker died\troot\tgpu-oom\tnames\terror\t2.0\ta.py:f\tThe worker died on node {}: no GPU memory",
    "of blocks\tnothing\t\t\tValueError\t1.0\tb.py:g\tNumber of blocks {} must divide {}",
    "显 存\troot\tgpu-oom\twords\terror\t1.0\tc.py:h\t第 {} 张卡显存不足",
)


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "engine.tsv").write_text("# head\n" + "\n".join(ROWS) + "\n", encoding="utf-8")
    monkeypatch.setattr(template_rows, "FOLDER", tmp_path)
    _forget()
    yield
    _forget()


def _forget() -> None:
    template_rows._index.cache_clear()
    find_templates.cache_clear()


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(
    ("line", "place", "cause"),
    [
        ("ERROR 08-30 [core.py:1] The worker died on node 10.0.0.1", "a.py:f", None),
        ("ERROR The  worker\tdied on node n1: no GPU memory", "a.py:f", Cause.GPU_OOM),
        ("ValueError: Number of blocks 3 must divide 7", "b.py:g", None),
        ("第 3 张卡显存不足", "c.py:h", Cause.GPU_OOM),
    ],
)
def test_a_line_is_of_the_longest_template_that_it_holds(line: str, place: str, cause: Cause | None) -> None:
    [row] = find_templates(line)

    assert (row.program, row.place, row.cause) == ("engine", place, cause)


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(
    "line", ["", "the worker died on node 1", "must divide 7: Number of blocks 3", "worker", "died"]
)
def test_a_line_of_other_words_is_of_none(line: str) -> None:
    assert find_templates(line) == ()


@pytest.mark.usefixtures("shipped")
def test_a_template_that_several_programs_print_is_of_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "fork.tsv").write_text(f"{ROWS[0]}\n", encoding="utf-8")

    assert [row.program for row in find_templates("The worker died on node 7")] == ["engine", "fork"]


def test_a_template_may_be_little_of_a_line() -> None:
    row = row_of("engine", ROWS[2].split("\t")[1:])

    assert row.share_of("[7] Number of blocks 3 must divide 7") > 0.8
    assert (
        row.share_of("Number of blocks 3 of the table that somebody else has made must divide 7 or less than it") < 0.5
    )


def test_parts_stand_in_their_order() -> None:
    assert occurs_in("a {} b {}", "x a 1 b")
    assert not occurs_in("a {} b", "b 1 a")


def test_words_that_may_be_longer_are_no_key() -> None:
    assert list(literal_pairs("pre{}fix of a word {}end of it")) == ["of a", "a word", "of it"]
    assert set(literal_pairs("pre{}fix of a word {}end of it")) <= set(word_pairs("pre1fix of a word 2end of it"))


def test_a_row_with_too_few_columns_is_said() -> None:
    with pytest.raises(KnowledgeError, match=r"engine\.tsv: root"):
        row_of("engine", ["root", ""])
