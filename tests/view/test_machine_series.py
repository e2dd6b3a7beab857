"""Quantities of a machine by their names and units; a strange one keeps its own."""

from __future__ import annotations

from unhang.report.localizer import Localizer
from unhang.view.machine_series import lane_title


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
