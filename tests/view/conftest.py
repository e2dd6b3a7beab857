"""A browser for the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report.report_browser import Browser, binaries


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if binaries() is None:
        pytest.skip("Chromium and chromedriver are not installed")
    with Browser(Path(tmp_path_factory.mktemp("chromium"))) as started:
        yield started
