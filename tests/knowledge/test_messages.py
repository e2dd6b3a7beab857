from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.message_words import unprinted
from scripts.messages_page import messages_page
from unhang.knowledge import messages
from unhang.knowledge.job.versions import torch_version_from_line
from unhang.knowledge.messages import MessageRow, bare_operation, load_messages, match_message, rank_list

ROWS = load_messages()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_matches_its_own_example_and_no_other_row_does(row: MessageRow) -> None:
    assert any(anchor in row.example for anchor in row.anchors)
    assert [match.row.id for match in match_message(row.example)] == [row.id]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_says_what_it_means(row: MessageRow) -> None:
    assert row.meaning.endswith(".")
    assert row.checked.startswith("20")


def test_a_message_inside_another_is_told_as_such() -> None:
    text = (
        "[Rank 3] NCCL watchdog thread terminated with exception: [Rank 3] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800561 milliseconds before"
    )
    outer, inner = match_message(text)
    assert (outer.row.id, inner.row.id, inner.inside) == ("wd.term", "wd.timeout", "wd.term")
    assert inner.values == {"position": 7, "operation": "all_reduce", "limit_ms": 1800000, "elapsed_ms": 1800561}


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        ("WorkNCCL(OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1 milliseconds", {"operation": "all_reduce"}),
        ("WorkNCCL(SeqNum=4, OpType=BROADCAST, TensorShape=[3, 4], Timeout(ms)=10) ran for 11 mill", {"shape": "3, 4"}),
        ("WorkNCCL(SeqNum=4, OpType=_ALLGATHER_BASE, NumelIn=5, NumelOut=40, Timeout(m", {"elements_out": 40}),
    ],
)
def test_watchdog_lines_of_every_age_and_torn_ones_are_read(work: str, expected: dict[str, object]) -> None:
    (match,) = match_message(f"[Rank 3] Watchdog caught collective operation timeout: {work}")
    assert match.row.id == "wd.timeout"
    assert expected.items() <= match.values.items()


def test_line_numbers_tell_the_torch_release() -> None:
    assert torch_version_from_line("watchdog_timeout", 563) == ("2.3.0", "2.3.1")
    assert torch_version_from_line("watchdog_timeout", 655) == ()


def test_rank_lists_and_operations() -> None:
    assert rank_list("1-3,7") == (1, 2, 3, 7)
    assert rank_list("0, 2") == (0, 2)
    assert bare_operation("_ALLGATHER_BASE") == "_all_gather_base"


def test_the_page_of_messages_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "messages.md"
    assert page.read_text(encoding="utf-8") == messages_page(), "python -m scripts.pages"


ONLY_EXPLAINED = {
    *("dl.caught", "io.enospc", "look.ulimit", "n.algo", "mb.peer", "wd.stack", "rdzv.join"),
    *("dump.bcast", "dump.first", "dump.seen", "dump.prep", "dump.ok", "dump.ok28", "dump.wr", "dump.fail"),
    *("dump.pipe", "dump.future"),
}
"""Rows that `unhang explain` knows and no verdict rests on by themselves."""


def words_asked_for() -> set[str]:
    """Quoted words of the modules that ask what a message says."""
    texts = (path.read_text(encoding="utf-8") for path in Path(messages.__file__).parents[1].rglob("*.py"))
    asking = [ast.parse(text) for text in texts if "events_stating(" in text or ".says " in text]
    return {
        node.value
        for tree in asking
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        if isinstance(node.value, str)
    }


def test_somebody_asks_for_a_row_or_for_what_it_says() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in Path(messages.__file__).parents[1].rglob("*.py"))
    asked = words_asked_for()

    nobody = {row.id for row in ROWS if row.says not in asked and row.cause is None and f'"{row.id}"' not in code}
    words = sorted({row.says for row in ROWS} & asked)
    assert nobody == ONLY_EXPLAINED, f"nothing asks for these ids, nor for what they say; words that count: {words}"


def test_words_that_torch_does_not_print_are_named() -> None:
    words = "]: params[\n in this process\n appears not to match sizes of the same param in process 0.\n with sizes \n"
    invented = replace(
        messages.message_row("ddp.shape"), expression=r"verifies param\[(?P<index>\d+)\] in this process"
    )

    assert unprinted(messages.message_row("ddp.shape"), words) == []
    assert unprinted(invented, words) == ["verifies param["]
