"""Where metrics are to be served is looked at before the job starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import unhang


@pytest.mark.parametrize("where", ["foo", "127.0.0.1:", "9400:x", "70000"])
def test_a_place_that_is_none_is_refused_before_the_command_starts(tmp_path: Path, where: str) -> None:
    run = unhang("run", "--dir", str(tmp_path / "run"), "--metrics", where, "--", "touch", str(tmp_path / "ran"))

    assert run.returncode == 2
    assert "is neither a port nor HOST:PORT" in run.stderr
    assert not (tmp_path / "ran").exists()
