"""Programs that a test writes lie in the folder it runs in."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
