from __future__ import annotations

import pytest

from unhang.findings import Cause
from unhang.knowledge.messages import load_messages
from unhang.knowledge.terms import advice, plain, term, terms, terms_within
from unhang.knowledge.xid import KINDS


def test_every_term_names_causes_that_exist_and_a_source() -> None:
    causes = {cause.value for cause in Cause}
    for row in terms():
        assert set(row.causes) <= causes, row.names
        assert row.source, row.names
        assert row.meaning, row.names


def test_every_kind_of_message_has_its_advice() -> None:
    said = {row.says for row in load_messages()} | {f"xid-{kind}" for kind in KINDS}
    assert sorted(kind for kind in said if advice(kind) is None) == []


@pytest.mark.parametrize("word", ["Killed", "  killed ", "SIGKILL", "-9", "137", "exitcode: -9", "exitcode  : -9"])
def test_one_end_has_many_names(word: str) -> None:
    found = term(word)
    assert found is not None
    assert found.names[0] == "exit code -9 (SIGKILL)"


def test_a_question_holds_its_word() -> None:
    assert [found.names[0] for found in terms_within("多卡训练卡死怎么办？")] == ["hang"]
    assert terms_within("ZeRO-3卡住")[0].names[0] == "zero3"
    assert terms_within("shm") == ()


def test_case_and_marks_do_not_count() -> None:
    assert plain(' "CUDA  Out of Memory." ') == "cuda out of memory"
