from __future__ import annotations

import report_samples as samples

from unhang.findings import Verdict
from unhang.report.markdown import code, escaped, to_markdown
from unhang.report.redact import Redactor


def test_it_is_short_enough_for_a_chat(verdict: Verdict) -> None:
    assert len(to_markdown(verdict).splitlines()) <= 30


def test_the_administrator_gets_node_card_bus_xid_time_and_one_request() -> None:
    block = to_markdown(samples.crash()).split("**Your administrator**")[1]
    for part in ("`gpu-b04`", "`GPU-5d2f1c7e-88f0-4b9c-9d5e-0a1b2c3d4e5f`", "`0000:3b:00`", "Xid 79", "+08:00"):
        assert part in block
    assert "Please drain the node" in block
    assert block.count("Please") == 1


def test_a_fault_in_the_program_asks_nothing_of_the_administrator() -> None:
    block = to_markdown(samples.hang()).split("**Your administrator**")[1]
    assert block.strip() == "- Nothing to ask: nothing here points at the machines."


def test_text_from_a_log_cannot_become_markup() -> None:
    page = to_markdown(samples.hostile())
    assert "\x1b" not in page
    assert "<script>" not in page.split("`")[0]
    assert escaped("# <b> [x](y) *z*") == r"\# \<b\> \[x\](y) \*z\*"
    assert code("a `b` ``c``") == "``` a `b` ``c`` ```"


def test_redaction_renames_the_node_in_both_blocks() -> None:
    page = to_markdown(samples.crash(), redactor=Redactor(share=True))
    assert "gpu-b04" not in page
    assert "host-1" in page
