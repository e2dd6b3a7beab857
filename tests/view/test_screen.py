"""One screen tells who waits for whom, for 2 ranks and for 10,000, with colour and without."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from tests.view.runs import LEFT, document, run_folder
from tests.work import calls_of
from unhang.cli.main import main
from unhang.report.localizer import Localizer
from unhang.report.redaction.redact import Redactor
from unhang.view.reading import RunReading, read_run
from unhang.view.screen import STATE_SIGNS, TerminalSize, render_screen
from unhang.wire.documents.live_state import STATES, LiveState


def drawn(
    state: dict[str, Any], room: TerminalSize, *, live: bool = True, lang: str = "en", colour: bool = False
) -> str:
    read = msgspec.json.decode(json.dumps(state), type=LiveState)
    console = Console(width=room.width, height=room.height, no_color=not colour, force_terminal=colour, highlight=False)
    with console.capture() as captured:
        console.print(render_screen(RunReading(Path("/r"), live, read), room, Localizer(lang, Redactor())))
    return captured.get()


def test_eight_ranks_have_a_row_each() -> None:
    lines = drawn(document(8), TerminalSize(100, 30)).splitlines()

    assert lines[2] == "ranks 1-7 have waited 8 s for rank 0   the wait times out in 55 s"
    assert "HANG: uneven-data · certain · rank 0" in lines[3]
    assert next(line.split()[:3] for line in lines[5:] if line[:1].isdigit()) == ["0", "#", "busy"]
    assert "eval (evaluation)" in "\n".join(lines)
    assert "rank 0 by 1" in "\n".join(lines)


def test_a_long_wait_is_told_in_minutes_everywhere() -> None:
    """The row of a rank, the line on who waits for whom and the time left."""
    state = document(8)
    state["standing"] |= {"waited_s": 244.0, "killed_in_s": 8_000.0}
    state["ranks"]["waits_s"][3] = 244.0
    lines = drawn(state, TerminalSize(100, 30)).splitlines()

    assert lines[2] == "ranks 1-7 have waited 4 min for rank 0   the wait times out in 2:13 h"
    assert "244" not in "\n".join(lines)
    assert " 4 min  " in next(line for line in lines if line.startswith("3 "))
    assert "，已等 4 分钟   等待将在 2:13 小时后超时" in drawn(state, TerminalSize(100, 30), lang="zh")


@pytest.mark.parametrize(
    ("ranks", "room"),
    [
        (8, TerminalSize(80, 24)),
        (8, TerminalSize(60, 18)),
        (64, TerminalSize(60, 24)),
        (1_024, TerminalSize(100, 40)),
        (10_000, TerminalSize(120, 40)),
    ],
)
def test_it_fits_the_terminal(ranks: int, room: TerminalSize) -> None:
    lines = drawn(document(ranks), room).splitlines()

    assert len(lines) <= room.height
    assert max(map(len, lines)) <= room.width


def test_of_1024_ranks_each_has_a_sign() -> None:
    state = document(1_024)
    state["ranks"]["state"][77] = STATES.index("stopped")
    text = drawn(state, TerminalSize(100, 40))

    assert text.count("·") >= 1_022
    row = next(line for line in text.splitlines() if line.startswith("   0 "))
    assert row[5:].replace(" ", "")[77] == "S"
    assert "S 1 stopped" in text


def test_where_ranks_do_not_fit_the_worst_of_a_node_is_shown() -> None:
    state = document(10_000)
    state["ranks"]["state"][8 * 9 + 3] = STATES.index("dead")
    text = drawn(state, TerminalSize(100, 30))

    assert "one mark per node" in text
    row = next(line for line in text.splitlines() if line.startswith("   0 "))
    assert row[5:].replace(" ", "")[9] == "X"


def test_every_state_has_a_sign_of_its_own() -> None:
    assert set(STATE_SIGNS) == set(STATES)
    assert len({sign for sign, _, _ in STATE_SIGNS.values()}) == len(STATE_SIGNS)


def test_colour_says_nothing_that_signs_do_not() -> None:
    state = document(1_024)
    plain = drawn(state, TerminalSize(100, 40))
    coloured = drawn(state, TerminalSize(100, 40), colour=True)

    assert "\x1b[" in coloured
    assert "\x1b[" not in plain


def test_a_job_that_moves_is_calm() -> None:
    state = document(8)
    state |= {"standing": None, "verdict": None}

    text = drawn(state, TerminalSize(100, 30))

    assert text.splitlines()[2].strip() == "progressing"
    assert "HANG" not in text


def test_a_job_whose_ranks_have_ended_does_not_move() -> None:
    state = document(8) | {"standing": None}

    state["ranks"]["state"] = [STATES.index("over")] * 8
    assert drawn(state, TerminalSize(100, 30)).splitlines()[2].startswith("all ranks are done")
    state["ranks"]["state"][3] = STATES.index("dead")
    assert drawn(state, TerminalSize(100, 30)).splitlines()[2].strip() == "rank 3 failed"
    assert "rank 3 失败" in drawn(state, TerminalSize(100, 30), lang="zh")
    empty = document(0) | {"standing": None, "verdict": None, "groups": []}
    assert drawn(empty, TerminalSize(100, 30)).splitlines()[2].strip() == "starting"


def test_a_finished_run_and_one_that_has_just_begun() -> None:
    ended = drawn(document(8) | {"ended": True}, TerminalSize(100, 30), live=False)
    assert "how it ended was not recorded" in ended
    assert "ran for 66 min" in ended
    empty = document(0) | {"standing": None, "verdict": None, "groups": []}
    assert "no rank has been seen yet" in drawn(empty, TerminalSize(100, 30))


def test_in_chinese() -> None:
    text = drawn(document(8), TerminalSize(100, 30), lang="zh")

    assert "rank 1-7 在等 rank 0，已等 8 秒" in text
    assert "卡住：uneven-data · 确定 · rank 0" in text
    assert "rank 0 的 batch 先用完，离开了循环" in text
    assert "通信 88%" in text


def test_a_finished_run_of_an_older_unhang_is_shown_in_chinese_as_far_as_it_tells() -> None:
    state = document(8) | {"ended": True}
    del state["verdict"]["parts"]

    assert str(LEFT) in drawn(state, TerminalSize(100, 30), live=False, lang="zh")


def test_why_nothing_is_known_is_said_in_chinese(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, None)
    console = Console(width=80)
    with console.capture() as captured:
        console.print(render_screen(read_run(folder.path), TerminalSize(80, 24), Localizer("zh", Redactor())))

    assert "运行刚刚开始" in captured.get()


def test_what_ranks_say_of_themselves_cannot_paint_the_screen() -> None:
    state = document(2)
    state["labels"] = ["\x1b[2J[bold]evil\u202e"]
    state["run"]["command"] = ["\x1b]0;title\x07train"]

    text = drawn(state, TerminalSize(100, 30), colour=False)

    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_command_prints_one_screen_where_nobody_looks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run_folder(tmp_path, document(8) | {"ended": True})

    with pytest.raises(SystemExit) as left:
        main(["view", str(folder.path)])

    assert left.value.code == 0
    assert "uneven-data" in capsys.readouterr().out


@pytest.mark.parametrize("place", ["nowhere", "."])
def test_a_folder_that_is_no_run_is_bad_usage(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["view", place], ["view"]):
        with pytest.raises(SystemExit) as left:
            main(words)
        assert left.value.code == 2
        assert "unhang:" in capsys.readouterr().err


def test_ten_thousand_ranks_are_drawn_with_little_more_work_than_a_thousand() -> None:
    few, many = document(1_000), document(10_000)
    drawn(few, TerminalSize(160, 50))  # what is made once

    assert calls_of(lambda: drawn(many, TerminalSize(160, 50))) < 4 * calls_of(
        lambda: drawn(few, TerminalSize(160, 50))
    )


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_on_a_real_terminal_it_follows_and_leaves_with_ctrl_c(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, document(8))
    name = f"unhang-view-{os.getpid()}"
    tmux = ["tmux", "-L", name]
    start = f"{sys.executable} -c 'from unhang.cli.main import main; main()'"
    command = f"{start} view {folder.path}; echo LEFT $?; sleep 60"
    subprocess.run([*tmux, "-f", "/dev/null", "new", "-d", "-x", "100", "-y", "30", command], check=True, timeout=20)
    try:
        assert wait_for(tmux, "ranks 1-7 have waited")
        (folder.records / "live.json").write_text(json.dumps(document(8) | {"standing": None, "verdict": None}))
        assert wait_for(tmux, "progressing")
        subprocess.run([*tmux, "send-keys", "C-c"], check=True, timeout=20)
        assert wait_for(tmux, "LEFT 0")
    finally:
        subprocess.run([*tmux, "kill-server"], check=False, timeout=20, capture_output=True)


def wait_for(tmux: list[str], text: str) -> bool:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        shown = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, timeout=20, check=False)
        if text in shown.stdout:
            return True
        time.sleep(0.1)
    return False
