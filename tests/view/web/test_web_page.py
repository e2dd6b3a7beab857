"""The page in a real browser: any number of ranks, live, in both themes and languages, whatever the names hold."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.report import fact_samples
from tests.report import report_samples as samples
from tests.report.report_browser import Browser
from tests.view.runs import STALLED, document, run_folder
from tests.view.served import STARTED_S, keep, look, series, served
from tests.waiting import wait_for
from unhang.report.html.page import write_html
from unhang.report.layout.durations import duration
from unhang.report.localizer import Localizer
from unhang.view.web.server import WebServer
from unhang.wire.documents.live_state import STATES

pytestmark = pytest.mark.browser
NASTY = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


def opened(browser: Browser, server: WebServer, ranks: int) -> None:
    browser.visit("about:blank")  # the page before asks a server that is gone
    browser.log()
    browser.visit(server.address)
    wait_for(lambda: browser.run("return document.documentElement.dataset.ranks") == str(ranks))


def text(browser: Browser, name: str) -> str:
    return str(browser.run(f"return document.getElementById('{name}').textContent"))


def complaints(browser: Browser) -> list[str]:
    """Errors and refused loads; what the tests' own reading of canvases brings about is none."""
    return [line for line in browser.log() if "getImageData" not in line]


def ask_for(browser: Browser, rank: int) -> None:
    script = f"const f = document.getElementById('find'); f.value = {rank}; f.dispatchEvent(new Event('change'))"
    browser.run(script)


def colours_of(browser: Browser, name: str) -> int:
    """How many colours a canvas shows: an empty one shows one."""
    script = f"""const c = document.getElementById('{name}');
    const data = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer);
    return new Set(data).size"""
    return int(browser.run(script))


@pytest.mark.parametrize("ranks", [8, 1_024, 10_000])
def test_every_rank_has_a_tile(ranks: int, browser: Browser, tmp_path: Path) -> None:
    state = document(ranks)
    state["ranks"]["state"][ranks - 1] = STATES.index("stopped")
    run = run_folder(tmp_path, state)
    with served(run.path) as server:
        opened(browser, server, ranks)
        assert text(browser, "condition").endswith(" have waited 8 s for rank 0")
        assert text(browser, "left") == "the wait times out in 55 s"
        assert text(browser, "word") == "HANG"
        assert text(browser, "headline") == "Rank 0 ran out of batches and left the loop; the others are still in it"
        assert text(browser, "about").startswith("uneven-data · certain · rank 0")
        assert text(browser, "waiters") == f"ranks 1-{ranks - 1}"
        assert text(browser, "awaited") == "rank 0"
        assert f"waiting: {ranks - 2:,}" in text(browser, "legend")
        assert "stopped: 1" in text(browser, "legend")
        assert "rank 0 by 1" in text(browser, "groups")
        assert colours_of(browser, "grid") > 4
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        ask_for(browser, ranks - 1)
        assert f"rank {ranks - 1} · h{(ranks + 7) // 8} · stopped" in text(browser, "grid-said")
        assert complaints(browser) == []


SPANS_S = (1.4, 7.5, 54.5, 119.4, 119.5, 244.0, 7_199.4, 7_200.0, 90_061.0)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_tells_a_wait_as_the_terminal_does(lang: str, browser: Browser, tmp_path: Path) -> None:
    voice = Localizer(lang)
    state = document(len(SPANS_S))
    state["ranks"]["waits_s"] = list(SPANS_S)
    run = run_folder(tmp_path, state)
    with served(run.path, lang=lang) as server:
        opened(browser, server, len(SPANS_S))
        for rank, span_s in enumerate(SPANS_S):
            ask_for(browser, rank)
            assert f" {voice.say(duration(span_s))} · " in text(browser, "grid-said")


def test_a_change_is_seen(browser: Browser, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(8))
    with served(run.path) as server:
        opened(browser, server, 8)
        for state, tone in ((document(8) | {"standing": None}, "calm"), (document(8), "stalled")):
            keep(run, state)
            wait_for(lambda tone=tone: tone_of(browser) == f"hero {tone}")  # type: ignore[misc]


def tone_of(browser: Browser) -> str:
    return str(browser.run("return document.getElementById('hero').className"))


def test_a_click_shows_the_stack_and_the_last_lines(browser: Browser, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(8))
    look(run.path, 0, "Thread 7\n    evaluate (train.py:51)\n", "step 90\nevaluating\n")
    with served(run.path) as server:
        opened(browser, server, 8)
        browser.run("""const grid = document.getElementById('grid'), box = grid.getBoundingClientRect();
            const at = {clientX: box.left + 12, clientY: box.top + 12, bubbles: true};
            grid.dispatchEvent(new MouseEvent('click', at))""")
        wait_for(lambda: "evaluate (train.py:51)" in text(browser, "one-body"))
        shown = text(browser, "one-body")
        assert "evaluating" in shown
        assert "logs/attempt_0/0/stdout.log" in shown
        assert text(browser, "one-title") == "rank 0"


def test_in_a_narrow_window_a_click_shows_the_rank_where_one_looks(browser: Browser, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(1_024))
    look(run.path, 0, "Thread 7\n    evaluate (train.py:51)\n")
    browser.devtools("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=False)
    try:
        with served(run.path) as server:
            opened(browser, server, 1_024)
            ask_for(browser, 0)
            wait_for(lambda: "evaluate (train.py:51)" in text(browser, "one-body"))
            top, bottom = browser.run(
                "const box = document.getElementById('one').getBoundingClientRect(); return [box.top, box.bottom]"
            )
            assert 844 * 0.4 < top < bottom <= 845
            assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        browser.devtools("Emulation.clearDeviceMetricsOverride")


def test_the_keyboard_alone_reaches_a_rank(browser: Browser, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(8))
    with served(run.path) as server:
        opened(browser, server, 8)
        browser.run("document.getElementById('grid').focus()")
        browser.keys("ArrowRight", "ArrowRight", "Enter")
        wait_for(lambda: text(browser, "one-title") == "rank 1")


def test_the_timeline_shows_phases_waits_the_stall_and_can_be_zoomed(browser: Browser, tmp_path: Path) -> None:
    state = document(16)
    state["at_s"], state["run"]["started_s"], state["ended"] = STARTED_S + 60, STARTED_S, True
    run = run_folder(tmp_path, state)
    series(run.path, 16, 60)
    look(run.path, 0, "", "")
    with served(run.path) as server:
        opened(browser, server, 16)
        wait_for(lambda: browser.run("return document.documentElement.dataset.rows") == "960")
        assert {"data", "compute", "waiting"} <= set(legend(browser))
        assert colours_of(browser, "time") > 6
        assert point(browser, 0.99, 0) == "rank 0 · data 100 % · step 59 · train.py:47 main"
        assert point(browser, 0.99, 9).startswith("rank 9 · communication (waiting) 100 %")
        assert point(browser, 0.25, 9).startswith("rank 9 · compute 75 % · data 25 %")
        browser.run("document.getElementById('zoom-in').click(); document.getElementById('fewer').click()")
        wait_for(lambda: "rank 0 " not in point(browser, 0.5, 0))
        browser.run("document.getElementById('all').click()")
        wait_for(lambda: point(browser, 0.99, 0).startswith("rank 0 · data"))
        assert text(browser, "condition").endswith(" The run is over; how it ended was not recorded.")
        assert complaints(browser) == []


def test_a_run_that_was_ended_with_ctrl_c_shows_its_stall(browser: Browser, tmp_path: Path) -> None:
    """A real one: rank 2 polls for a file, the others wait; then Ctrl-C let every process end badly."""
    folder = Path(shutil.copytree(STALLED, tmp_path / "run"))
    with served(folder) as server:
        opened(browser, server, 4)
        wait_for(lambda: "(" in text(browser, "more-series"))
        assert text(browser, "word") == "HANG"
        assert text(browser, "headline").startswith("Rank 2 is waiting in the loop of line 12")
        assert "had waited 58 s for rank 2. SIGINT (Ctrl-C) ended the job." in text(browser, "condition")
        assert [text(browser, name) for name in ("waiters", "awaited")] == ["ranks 0, 1, 3", "rank 2"]
        assert text(browser, "awaited-at") == "/home/ml/job/train.py:13"
        assert "failed" not in text(browser, "legend")
        assert "waiting: 3" in text(browser, "legend")
        assert "train.py:13 wait_for_labels, train.py:35 main" in legend(browser)
        assert text(browser, "now-title") == "What the ranks did last"
        assert "train.py:13: 1" in text(browser, "split-legend")
        assert "other" not in re.sub("others?: |others", "", text(browser, "split-legend") + " ".join(legend(browser)))
        assert "CPUs" in text(browser, "more-series")
        ask_for(browser, 2)
        wait_for(lambda: "train.py:13" in text(browser, "one-body"))
        assert "failed" not in text(browser, "one-body")
        assert point(browser, 0.8, 2).startswith("rank 2 · train.py:13 wait_for_labels 100 %")
        assert complaints(browser) == []


def legend(browser: Browser) -> list[str]:
    return list(browser.run("return [...document.querySelectorAll('#time-legend li')].map((item) => item.textContent)"))


def point(browser: Browser, share: float, lane: int) -> str:
    """What is said of the timeline there, without the time of day."""
    script = f"""const time = document.getElementById('time'), box = time.getBoundingClientRect();
        const x = box.left + 92 + {share} * (box.width - 102), y = box.top + 34 + ({lane} + 0.5) * 24;
        time.dispatchEvent(new PointerEvent('pointermove', {{clientX: x, clientY: y, bubbles: true}}));
        return document.getElementById('time-said').textContent"""
    return re.sub(r" · \d\d:\d\d:\d\d", "", str(browser.run(script)))


def test_dark_and_light_follow_the_system_and_the_button(browser: Browser, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(8))
    pixel = "return [...document.getElementById('grid').getContext('2d').getImageData(1, 12, 1, 1).data].join()"
    with served(run.path) as server:
        browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
        opened(browser, server, 8)
        light = browser.run(pixel)
        browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        wait_for(lambda: browser.run(pixel) != light)
        browser.run("document.getElementById('theme').click()")
        wait_for(lambda: browser.run(pixel) == light)


def test_it_speaks_chinese(browser: Browser, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(8))
    with served(run.path, "zh") as server:
        opened(browser, server, 8)
        assert text(browser, "condition") == "rank 1-7 在等 rank 0，已等 8 秒"
        assert text(browser, "word") == "卡住"
        assert text(browser, "about").startswith("uneven-data · 确定 · rank 0 · ")
        assert text(browser, "headline") == "rank 0 的 batch 先用完，离开了循环；其他 rank 还在循环里"
        assert text(browser, "ranks-title") == "各 rank"
        assert browser.run("return document.documentElement.lang") == "zh"
        left = browser.run("return document.querySelector('main').innerText")
        assert not re.search(r"\b(Ranks|Positions|Zoom|waits for|communication|eval)\b", left)


def test_names_and_lines_of_others_are_never_markup(browser: Browser, tmp_path: Path) -> None:
    state = document(16)
    state["run"]["command"], state["run"]["nodes"] = [NASTY], [NASTY, NASTY + "2"]
    state["places"], state["labels"] = [NASTY] * 2, [NASTY]
    state["groups"][0]["name"] = NASTY
    state["verdict"] |= {"where": NASTY, "sentence": NASTY, "cause": NASTY, "status": NASTY}
    run = run_folder(tmp_path, state)
    look(run.path, 0, NASTY, NASTY)
    (run.path / "verdict.json").write_text(json.dumps({"findings": [{"cause": NASTY}]}))
    series(run.path, 16, 9)
    (run.path / "machine").mkdir()
    (run.path / "machine" / "series.jsonl").write_text(json.dumps({"t_s": STARTED_S, "node": NASTY, NASTY: 5}) + "\n")
    with served(run.path) as server:
        opened(browser, server, 16)
        ask_for(browser, 0)
        wait_for(lambda: NASTY in text(browser, "one-body"))
        wait_for(lambda: NASTY in text(browser, "machine"))
        assert NASTY in f"{text(browser, 'headline')} {text(browser, 'rest')}"
        assert browser.run("return document.querySelectorAll('img, main script').length") == 0
        assert complaints(browser) == []


def test_nothing_is_asked_of_anybody_else(browser: Browser, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(8))
    with served(run.path) as server:
        opened(browser, server, 8)
        asked = browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        own = server.address.partition("?")[0]
        assert asked
        assert all(str(address).startswith(own) for address in asked)
        assert not any("token=" in str(address) for address in asked)


def test_the_end_of_the_server_is_said_and_the_last_state_stays(browser: Browser, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(8))
    with served(run.path) as server:
        opened(browser, server, 8)
        assert browser.run("return document.getElementById('gone').hidden") is True
    wait_for(lambda: browser.run("return document.getElementById('gone').hidden") is False)
    assert "The server has stopped" in text(browser, "gone")
    assert text(browser, "condition").startswith("ranks 1-7 have waited")


def test_the_end_of_the_run_is_said(browser: Browser, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(8))
    with served(run.path) as server:
        opened(browser, server, 8)
        keep(run, document(8) | {"ended": True})
        wait_for(lambda: "The run is over" in text(browser, "condition"))


def test_a_wrong_token_is_said(browser: Browser, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(8))
    with served(run.path) as server:
        browser.visit(server.address + "x")
        assert "token is missing or wrong" in browser.run("return document.body.innerText")
        browser.log()


def test_a_run_that_has_not_begun_says_so(browser: Browser, tmp_path: Path) -> None:
    run = run_folder(tmp_path, None)
    with served(run.path) as server:
        browser.visit(server.address)
        wait_for(lambda: "just started" in text(browser, "headline"))
        keep(run, document(2))
        wait_for(lambda: browser.run("return document.documentElement.dataset.ranks") == "2")


@pytest.mark.parametrize(("width", "ranks"), [(360, 8), (360, 64), (800, 64), (1600, 64)])
def test_no_width_scrolls_sideways_or_cuts_tiles(width: int, ranks: int, browser: Browser, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(ranks))
    look(run.path, 0, "x" * 400, "y" * 400)
    browser.devtools("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
    try:
        with served(run.path) as server:
            opened(browser, server, ranks)
            ask_for(browser, 0)
            wait_for(lambda: "yyy" in text(browser, "one-body"))
            assert browser.run("return document.documentElement.scrollWidth") <= width
            beyond = "return document.documentElement.dataset.gridRight - document.getElementById('grid').clientWidth"
            assert browser.run(beyond) <= 0
    finally:
        browser.devtools("Emulation.clearDeviceMetricsOverride")


def test_the_report_is_shown_with_its_own_script_and_no_other(browser: Browser, tmp_path: Path) -> None:
    run = run_folder(tmp_path, document(8))
    path = write_html(samples.hang(8), fact_samples.facts(8), run.path / "report.html")
    with served(run.path) as server:
        opened(browser, server, 8)
        address = browser.run("return document.getElementById('report').href")
        assert browser.run("return document.getElementById('report').hidden") is False
        browser.visit(address)
        assert browser.run("return document.querySelectorAll('#drawing rect.done').length") > 8
        assert browser.run("return self.origin") == "null"
        foreign = "<script>document.title = 'foreign'</script></body>"
        policy = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
        path.write_text(policy.sub("", path.read_text()).replace("</body>", foreign))
        browser.visit(address)
        assert browser.run("return document.title") != "foreign"
        assert any("Content Security Policy" in line for line in browser.log())
