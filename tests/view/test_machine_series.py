"""Quantities of a machine by their names and units; a strange one keeps its own."""

from __future__ import annotations

from pathlib import Path

from tests.machine_samples import card, series
from unhang.report.localizer import Localizer
from unhang.report.machine_quantities import lane_title
from unhang.view.machine_series import MachineSeries


def named(name: str, lang: str = "en") -> tuple[str, str, float]:
    title, unit, factor = lane_title(name)
    return Localizer(lang).say(title), unit, factor


def test_they_have_a_name_and_a_unit() -> None:
    assert named("pressure io some") == ("waiting for disks (PSI some)", "%", 100.0)
    assert named("net eth0 rx_bps") == ("network eth0: received", "B/s", 1.0)
    assert named("card 3 temp_c", "zh") == ("GPU 3：温度", "°C", 1.0)
    assert named("job_cpus") == ("CPUs used by the job", "", 1.0)


def test_a_strange_one_keeps_its_name() -> None:
    assert named("net lo rx_bps") == ("net lo rx_bps", "", 1.0)
    assert named("{name} of tomorrow", "zh") == ("{name} of tomorrow", "", 1.0)
    assert named("disk {x} busy")[0] == "disk {x}: busy"


def test_every_card_of_a_full_machine_is_shown(tmp_path: Path) -> None:
    links = {"pcie_rx_bps": 3e9, "pcie_tx_bps": 1e9, "nvlink_rx_bps": 9e9, "nvlink_tx_bps": 8e9}
    rare = {"mem_mhz": 2619, "power_limit_w": 700, "uncorrected": 0, "lanes": 16}
    ports = {f"eth{number}": {"rx_bps": 1e6, "tx_bps": 1e6} for number in range(16)}
    row = {"net": ports, "cards": [card(index, **links, **rare) for index in range(16)]}
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "series.jsonl").write_bytes(series([row, row], last_s=2e9))
    machine = MachineSeries(tmp_path)
    machine.read()
    lanes = machine.lanes("node-a")

    for index in range(16):
        for quantity in ("util", "mem_used", "sm_mhz", "temp_c", "power_w", *links):
            assert len(lanes[f"card {index} {quantity}"].values) == 2
    assert not [name for name in lanes if name.endswith(("max_mhz", "power_limit_w", "mem_total"))]
    assert not [name for name in lanes if name.startswith("card") and named(name)[0] == name]
    assert named("card 7 nvlink_rx_bps", "zh") == ("GPU 7：NVLink 接收", "B/s", 1.0)
