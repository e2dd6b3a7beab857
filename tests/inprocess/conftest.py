"""Folders as the front process makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.inprocess.programs import Folders
from unhang.wire.control import Control


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    made = Folders(tmp_path / "records", tmp_path / "run")
    (made.records / "births").mkdir(parents=True)
    made.run.mkdir()
    Control.create(made.records)
    return made
