"""The verdicts every report is tested with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.report import report_samples as samples
from tests.report.report_browser import Browser, binaries
from unhang.findings import Verdict


@pytest.fixture(params=sorted(samples.ALL))
def verdict(request: pytest.FixtureRequest) -> Verdict:
    """One of each kind: healthy, hang, slow, crash, unknown, hostile."""
    return samples.ALL[request.param]()


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if binaries() is None:
        pytest.skip("Chromium and chromedriver are not installed")
    with Browser(Path(tmp_path_factory.mktemp("chromium"))) as started:
        yield started
