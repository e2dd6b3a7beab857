"""A job that is ended while ranks wait: by us, or because somebody asked. What was found before stays."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.watch.sampling import kept_evidence
from unhang_lab.lab_case import find_case
from unhang_lab.watched import WatchedCase, watch_case

LIMIT_S = 120.0
SOON = ("--slow-after", "1.5", "--capture")
"""Four times that before the first steps."""


@pytest.mark.job
@pytest.mark.timeout(300)
def test_the_verdict_for_which_we_end_a_job_stays(tmp_path: Path) -> None:
    options = (*SOON, "--on-hang", "abort", "--abort-slow-after", "4")
    with watch_case(find_case("rank0-tokenises"), tmp_path / "run", ranks=2, options=options) as job:
        ended = job.wait_for(lambda: job.front.poll() is not None, LIMIT_S)
        printed = job.terminal.read_text()

    assert ended, printed
    assert "ending the job because of single-rank-work" in printed
    assert "left running" not in printed
    assert_stays(job, printed)


@pytest.mark.job
@pytest.mark.live
@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_somebody_who_ends_a_job_takes_no_verdict_away(number: signal.Signals, tmp_path: Path) -> None:
    with watch_case(find_case("rank0-tokenises"), tmp_path / "run", ranks=2, options=SOON) as job:
        assert job.wait_for(lambda: "SLOW  " in job.terminal.read_text(), LIMIT_S)
        job.front.send_signal(number)
        ended = job.wait_for(lambda: job.front.poll() is not None, LIMIT_S)
        printed = job.terminal.read_text()

    assert ended, printed
    assert_stays(job, printed)


@pytest.mark.job
@pytest.mark.live
@pytest.mark.timeout(300)
def test_ranks_that_fall_because_somebody_ends_the_job_are_no_finding(tmp_path: Path) -> None:
    with watch_case(find_case("healthy-running"), tmp_path / "run", ranks=2) as job:
        assert job.wait_for(lambda: sum(bool(view.groups) for view in job.views.values()) == 2, LIMIT_S)
        job.front.send_signal(signal.SIGINT)
        ended = job.wait_for(lambda: job.front.poll() is not None, LIMIT_S)
        printed = job.terminal.read_text()

    assert ended, printed
    assert "no problem found" in printed
    assert job.verdict() is None


def assert_stays(job: WatchedCase, printed: str) -> None:
    """The one verdict that was printed is that of the folder, and is come to again."""
    told = job.verdict()
    assert told is not None, printed
    assert (told["status"], told["findings"][0]["cause"]) == ("slow", "single-rank-work"), printed
    assert printed.count("noticed after") == 1, printed
    assert "found: single-rank-work; see" in printed
    again = diagnose(build_facts(read_evidence([str(job.folder)])))
    assert (again.status.value, again.findings[0].cause.value) == ("slow", "single-rank-work")


def test_what_ranks_leave_as_we_end_them_is_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "dumps").mkdir()
    (tmp_path / "crash").mkdir()
    (tmp_path / "dumps" / "rank_0").write_text("as judged")

    kept_evidence.set_judged_aside(tmp_path)
    (tmp_path / "dumps" / "rank_0").write_text("as it fell")
    (tmp_path / "crash" / "rank_0.except").write_text("connection closed")
    kept_evidence.restore_judged(tmp_path)
    kept_evidence.restore_judged(tmp_path)

    assert [path.read_text() for path in (tmp_path / "dumps").iterdir()] == ["as judged"]
    assert list((tmp_path / "crash").iterdir()) == []
    kept = tmp_path / ".unhang" / "after-abort"
    assert (kept / "dumps" / "rank_0").read_text() == "as it fell"
    assert (kept / "crash" / "rank_0.except").read_text() == "connection closed"


def test_what_a_job_printed_after_the_look_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    before, after = "step 1\n", "RuntimeError: Connection closed by peer [127.0.0.1]:2130\n"
    (tmp_path / "logs" / "launcher.log").write_text(before + after)
    (tmp_path / "logs" / "later.log").write_text(before)
    manifest = {"schema": "unhang.bundle/1", "live": True, "log_bytes": {"logs/launcher.log": len(before)}}
    (tmp_path / "bundle.json").write_text(json.dumps(manifest))

    logs = read_evidence([str(tmp_path)]).logs

    assert [log.lines for log in logs] == [1, 1]
