"""The user's command at a stall: it runs where the user typed it, its output is private, and its failure is said."""

from __future__ import annotations

import stat
import time
from pathlib import Path

import pytest

from unhang.watch import end_job, private_files
from unhang.watch.run_folder import RunFolder

LIMIT_S = 60.0


def said(folder: RunFolder) -> list[str]:
    """What is said once every command has ended."""
    found, deadline = [], time.monotonic() + LIMIT_S
    while end_job._started and time.monotonic() < deadline:
        found += [str(text) for text in end_job.failed_command_lines(folder)]
        time.sleep(0.02)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    made = RunFolder.create(tmp_path / "run")
    private_files.write(made.localized_verdict, b'{"status": "hang"}')
    return made


def test_it_runs_where_the_user_typed_it(tmp_path: Path, folder: RunFolder) -> None:
    place = tmp_path / "a 'b' $c"
    place.mkdir()
    end_job.run_command('cat > told.json; echo "$0 said" | tee -a out', folder, str(place))

    assert said(folder) == []
    assert (place / "told.json").read_text() == '{"status": "hang"}'
    log = folder.path / ".unhang" / "on-hang-exec.log"
    assert "said" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_where_that_folder_is_gone_it_runs_all_the_same(tmp_path: Path, folder: RunFolder) -> None:
    end_job.run_command("touch came", folder, str(tmp_path / "gone"))

    assert said(folder) == []
    assert (folder.path / "came").exists()


@pytest.mark.parametrize(("command", "words"), [("exit 7", "exit code 7"), ("no-such-command-of-ours", "127")])
def test_a_command_that_fails_is_said(command: str, words: str, tmp_path: Path, folder: RunFolder) -> None:
    end_job.run_command(command, folder, str(tmp_path))

    (line,) = said(folder)
    assert words in line
    assert "on-hang-exec.log" in line


def test_a_command_that_does_not_end_is_ended(
    tmp_path: Path, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_job, "COMMAND_LIMIT_S", 0.3)
    end_job.run_command("sleep 600", folder, str(tmp_path))

    (line,) = said(folder)
    assert "was killed after" in line
