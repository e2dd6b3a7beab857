"""What the cards did, as small charts: only what was recorded, the laggard's card apart, the stall shaded."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.machine_samples import card, rank, series
from tests.report import fact_samples
from tests.report import report_samples as samples
from tests.report.report_browser import Browser
from unhang.facts.model import Facts
from unhang.findings import Source
from unhang.report.html.page import to_html, write_html
from unhang.report.html.timeline import card_charts
from unhang.report.localizer import Localizer
from unhang.wire.documents.bundle import BundleManifest
from unhang.wire.documents.machine_series import MachineSeries, read_machine_series

BEGIN_S, STALL_S, END_S = 1_795_000_000.0, 1_795_000_060.0, 1_795_000_120.0
LINKS = {"pcie_rx_bps": 3e9, "pcie_tx_bps": 1.2e9, "nvlink_rx_bps": 9e9, "nvlink_tx_bps": 8e9}


def recorded(node: str = "node-a", ranks: tuple[int, ...] = (2, 3), **parts: Any) -> MachineSeries:
    """Two cards for two minutes; the second does nothing from the middle on."""
    rows = [
        {
            "ranks": [rank(number) for number in ranks],
            "cards": [card(2, **parts), card(3, util=98 if n < 6 else 0, **parts)],
        }
        for n in range(13)
    ]
    found = read_machine_series(series(rows, last_s=END_S, node=node), source=Source("machine/series.jsonl"))
    assert isinstance(found, MachineSeries)
    return found


def job(*machines: MachineSeries, since_s: float | None = None) -> Facts:
    manifest = BundleManifest(stalled_since_s=since_s)
    return replace(fact_samples.facts(), machines=machines, manifests=(manifest,))


def test_there_is_a_chart_of_what_was_recorded_and_of_nothing_else() -> None:
    (node,) = card_charts(job(recorded()), frozenset(), Localizer())

    assert [(chart["title"], chart["range"]) for chart in node["charts"]] == [
        ("GPU 2, 3: busy", "0 % – 98 %"),
        ("GPU 2, 3: memory used", "64.4 GB"),
        ("GPU 2, 3: clock", "1980 MHz"),
    ]
    assert (node["name"], node["late"], node["stall"]) == ("node-a", False, None)


def test_link_rates_are_shown_where_the_driver_told_them() -> None:
    (node,) = card_charts(job(recorded(**LINKS)), frozenset(), Localizer("zh"))

    assert [(chart["title"], chart["range"]) for chart in node["charts"]][3:] == [
        ("GPU 2、3：PCIe 接收", "3 GB/s"),
        ("GPU 2、3：PCIe 发送", "1.2 GB/s"),
        ("GPU 2、3：NVLink 接收", "9 GB/s"),
        ("GPU 2、3：NVLink 发送", "8 GB/s"),
    ]


def test_the_card_of_the_late_rank_is_on_top_and_its_node_first() -> None:
    elsewhere = recorded("node-b", ranks=())
    first, second = card_charts(job(elsewhere, recorded(), since_s=STALL_S), frozenset({3}), Localizer())

    assert (first["name"], first["late"], second["late"]) == ("node-a", True, False)
    assert [(number, late) for number, late, _ in first["charts"][0]["lines"]] == [(2, False), (3, True)]
    assert first["stall"] == 160


def test_lines_begin_and_end_at_the_edges_and_full_use_is_the_top() -> None:
    (node,) = card_charts(job(recorded()), frozenset(), Localizer())
    busy, idle = (points.split() for _, _, points in node["charts"][0]["lines"])

    assert (busy[0], busy[-1]) == ("0.0,4.1", "320.0,4.1")
    assert (idle[0], idle[-1]) == ("0.0,4.1", "320.0,57.0")


@pytest.mark.parametrize("rows", [0, 1])
def test_without_two_samples_there_is_no_chart(rows: int) -> None:
    found = read_machine_series(series([{"cards": [card(0)]}] * rows, last_s=END_S), source=Source("m"))
    assert isinstance(found, MachineSeries)

    assert card_charts(job(found), frozenset(), Localizer()) == []
    assert 'id="cards"' not in to_html(samples.hang(), job(found))


def test_a_long_run_keeps_its_whole_time_in_few_points() -> None:
    rows = [{"cards": [card(0)]}] * 1400
    found = read_machine_series(series(rows, last_s=END_S), source=Source("m"))
    assert isinstance(found, MachineSeries)

    (node,) = card_charts(job(found), frozenset(), Localizer())
    points = node["charts"][0]["lines"][0][2].split()

    assert len(points) <= 300
    assert points[0].startswith("0.0,")
    assert float(points[-1].partition(",")[0]) > 318


def test_a_name_from_the_evidence_is_text() -> None:
    page = to_html(samples.hang(), job(recorded(node="<script>x</script>")))

    assert "<script>x" not in page
    assert "&lt;script&gt;x" in page


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_lines_are_seen_in_both_colour_schemes(scheme: str, browser: Browser, tmp_path: Path) -> None:
    browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.open(write_html(samples.hang(), job(recorded(), since_s=STALL_S), tmp_path / "report.html"))

    assert browser.run("return document.querySelectorAll('#cards svg.series').length") == 3
    colours = "const of = (what) => getComputedStyle(document.querySelector(`.series ${what}`.trim()));"
    late, other, ground = browser.run(
        f"{colours} return [of('.late').stroke, of('polyline:not(.late)').stroke, of('').backgroundColor]"
    )
    assert len({late, other, ground}) == 3
    assert contrast(late, ground) > 3
    assert contrast(other, ground) > 3
    assert browser.log() == []


def contrast(one: str, other: str) -> float:
    """Of two colours, as WCAG counts it."""
    darker, lighter = sorted(_luminance(colour) for colour in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(number) / 255 for number in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
