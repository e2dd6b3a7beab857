from __future__ import annotations

from rich.cells import cell_len

from unhang.report.layout.text_layout import TextLayout

CHINESE = "rank 0 停在第 51 行，已经在循环之后；其他 rank 在第 47 行等待（位于从第 43 行开始的循环之内）。" * 3


def test_chinese_fills_its_lines_and_no_line_begins_with_a_mark() -> None:
    sheet = TextLayout(60)
    sheet.paragraph(CHINESE)
    lines = sheet.plain().splitlines()

    assert all(cell_len(line) <= 60 for line in lines)
    assert all(cell_len(line) >= 50 for line in lines[:-1])
    assert not any(line.strip()[0] in "，。；：！？、）》" for line in lines)
    assert not any(line.rstrip()[-1] in "（《" for line in lines)
    assert "".join("".join(lines).split()) == "".join(CHINESE.split())


def test_a_path_longer_than_the_line_is_cut_and_not_lost() -> None:
    path = "/data/训练/" + "run-2026/" * 20 + "train.py"
    sheet = TextLayout(40)
    sheet.paragraph(f"在 {path} 里")
    lines = sheet.plain().splitlines()

    assert all(cell_len(line) <= 40 for line in lines)
    assert path in "".join(line.strip() for line in lines)


def test_english_breaks_at_blanks() -> None:
    sheet = TextLayout(40)
    sheet.paragraph("one rank waits for the others in a collective that none of them has reached", lead="• ")

    assert sheet.plain().splitlines() == [
        "  • one rank waits for the others in a",
        "    collective that none of them has",
        "    reached",
    ]
