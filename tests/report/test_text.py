from __future__ import annotations

import io
import re

import pytest
from rich.cells import cell_len

from tests.report import fact_samples
from tests.report import report_samples as samples
from unhang.findings import Verdict
from unhang.report.layout.text_layout import TextLayout
from unhang.report.text import print_text, to_text

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [40, 80, 100])
def test_no_line_is_wider_than_asked(verdict: Verdict, width: int) -> None:
    lines = to_text(verdict, fact_samples.facts(), width=width).splitlines()
    too_wide = [line for line in lines if cell_len(line) > width and " " in line.strip().removeprefix("$ ")]
    assert not too_wide


def test_a_pipe_gets_neither_colours_nor_control_codes(verdict: Verdict) -> None:
    out = io.StringIO()
    print_text(verdict, fact_samples.facts(), file=out)
    assert not CONTROL.search(out.getvalue())
    assert max(cell_len(line) for line in out.getvalue().splitlines()) <= 80


def test_a_terminal_gets_colours_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = Terminal()
    print_text(samples.hang(), file=coloured)
    assert "\x1b[1;31mHANG" in coloured.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    print_text(samples.hang(), file=plain)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", plain.getvalue())


def test_what_to_do_stands_before_why_and_both_places_are_named() -> None:
    text = to_text(samples.hang(), fact_samples.facts())
    order = ["HANG", "train.py:26", "Next", "Why", "Rank 3 is here", "The other ranks wait here", "Evidence"]
    order += ["Consequences", "Could not be checked", "Could not be read", "Ruled out", "Read all 8 ranks."]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "▸    26 │ torch.save" in text
    assert "/home/mlee/pretrain/train.py:15  in train" in text
    assert "logs/3.log:2210" in text


def test_a_long_command_stays_one_command_when_it_is_wrapped() -> None:
    lines = to_text(samples.hang()).splitlines()
    start = next(n for n, line in enumerate(lines) if line.strip().startswith("$ sudo dmesg"))
    joined = " ".join(line.strip().removesuffix("\\").strip() for line in lines[start : start + 2]).removeprefix("$ ")
    assert joined == samples.hang().not_checked[0].how


def test_healthy_and_unknown_say_so_and_what_was_read() -> None:
    assert to_text(samples.healthy()).startswith("HEALTHY  Nothing is wrong, and the evidence shows it.")
    assert "Read all 8 ranks." in to_text(samples.healthy())
    text = to_text(samples.unknown())
    assert "Next  Record what every rank does" in text
    assert "$ export TORCH_NCCL_TRACE_BUFFER_SIZE=2000" in text


def test_an_encoding_without_the_signs_gets_ascii_and_no_error() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    print_text(samples.hang(), fact_samples.facts(), file=out)
    out.flush()
    assert b"uneven-data | certain" in raw.getvalue()


def test_a_chinese_terminal_gets_chinese_and_stand_ins_for_signs_it_lacks() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="gbk")
    sheet = TextLayout(80)
    sheet.paragraph("rank 0 停在这里 ▸ train.py · 很可能")
    sheet.print_to(out)

    assert raw.getvalue().decode("gbk") == "  rank 0 停在这里 > train.py · 很可能\n"


def test_missing_ranks_are_named() -> None:
    from dataclasses import replace

    text = to_text(replace(samples.hang(), ranks_seen=(0, 1, 2, 3), ranks_missing=(4, 5, 6, 7)))
    assert "Read 4 of 8 ranks; ranks 4-7 are missing." in text


def test_secrets_never_reach_the_text(verdict: Verdict) -> None:
    text = to_text(verdict)
    assert "hunter2" not in text
    assert "0123456789abcdef" not in text
