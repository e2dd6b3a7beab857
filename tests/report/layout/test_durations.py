"""How long something took is said the same way everywhere, and never as if there were more time left than there is."""

from __future__ import annotations

import pytest

from unhang.report.language import translate
from unhang.report.layout.durations import duration


@pytest.mark.parametrize(
    ("seconds", "english", "chinese"),
    [
        (-3.0, "0 s", "0 秒"),
        (7.5, "8 s", "8 秒"),
        (119.4, "119 s", "119 秒"),
        (119.5, "2 min", "2 分钟"),
        (299.0, "4 min", "4 分钟"),
        (7_199.4, "119 min", "119 分钟"),
        (7_200.0, "2:00 h", "2:00 小时"),
        (90_061.0, "25:01 h", "25:01 小时"),
    ],
)
def test_a_duration(seconds: float, english: str, chinese: str) -> None:
    assert (str(duration(seconds)), translate(duration(seconds), "zh")) == (english, chinese)
