"""Files of two jobs are told apart; whatever may be of one job stays together."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from unhang.evidence.inputs import read_evidence
from unhang.facts.separate_jobs import separate_jobs

CASES = Path(__file__).parents[1] / "cases"
PAIR = CASES / "network-config" / "hit_beside_the_log_of_another_job" / "input"
GLOO, SHM = PAIR / "do-eks-gloo-loopback.log", PAIR / "minimax-tp8-shm.log"
SMALL = CASES / "rank-conditional-collective" / "hit_extra_call_was_answered" / "input"
OTHER = CASES / "collective-mismatch" / "hit_two_threads_in_one_group" / "input"


def jobs_in(*paths: Path) -> list[set[str]]:
    """Names of the inputs of each job, in order of time."""
    found = separate_jobs(read_evidence([str(path) for path in paths]))
    return [{Path(name).name for name in job.evidence.inputs} for job in found]


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def days_later(text: str, days: int) -> str:
    """A log whose lines have dates of one month, so many days on."""
    return re.sub(r"\b(\d\d)-(\d\d) (\d\d:\d\d)", lambda m: f"{m[1]}-{int(m[2]) + days:02} {m[3]}", text)


def test_logs_of_two_jobs_are_two_jobs_in_any_order_and_from_one_folder() -> None:
    both = [{SHM.name}, {GLOO.name}]

    assert jobs_in(GLOO, SHM) == jobs_in(SHM, GLOO) == jobs_in(PAIR) == both
    (_, later) = separate_jobs(read_evidence([str(PAIR)]))
    assert [str(each) for each in later.apart_by] == ["host"]


@pytest.mark.parametrize(("days", "number"), [(1, 1), (3, 2)])
def test_a_rank_that_speaks_days_later_ran_twice(days: int, number: int, tmp_path: Path) -> None:
    again = written(tmp_path / "second.log", days_later(GLOO.read_text(), days))

    assert len(jobs_in(GLOO, again)) == number


def test_a_later_log_that_names_no_rank_is_of_the_same_job(tmp_path: Path) -> None:
    again = written(tmp_path / "second.log", days_later(SHM.read_text(), 3))

    assert len(jobs_in(SHM, again)) == 1


def test_another_zone_does_not_make_another_job(tmp_path: Path) -> None:
    other_node = SHM.read_text().replace("6c1b0f7d2ae9", "node2").replace("04-06 20:", "04-07 11:")

    assert len(jobs_in(SHM, written(tmp_path / "node2.log", other_node))) == 1


def test_a_log_without_times_leaves_it_undecided_unless_it_lies_beside_one(tmp_path: Path) -> None:
    one, other = tmp_path / "one" / "a.log", tmp_path / "other" / "b.log"
    shutil.copytree(PAIR, tmp_path / "pair")
    written(one, SHM.read_text()), written(other, GLOO.read_text())
    words = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"

    assert len(jobs_in(one, other, written(tmp_path / "elsewhere" / "c.log", words))) == 1
    assert len(jobs_in(one, other, written(one.with_name("c.log"), words))) == 2
    assert len(jobs_in(tmp_path / "pair", written(tmp_path / "pair" / "c.log", words))) == 1


def test_run_folders_of_two_runs_are_two_jobs(tmp_path: Path) -> None:
    for name, case in (("first", SMALL), ("second", OTHER)):
        shutil.copytree(case, tmp_path / name)

    assert jobs_in(tmp_path / "first", tmp_path / "second") == [{"first"}, {"second"}]
    assert len(jobs_in(tmp_path)) == 2


@pytest.mark.parametrize(("change", "number"), [({}, 1), ({"launcher": 7}, 1), ({"pid": 90_000}, 2)])
def test_a_job_that_was_looked_at_twice_is_one(change: dict[str, int], number: int, tmp_path: Path) -> None:
    """Its processes are the same, or started anew below the same launcher."""
    first, second = (shutil.copytree(SMALL, tmp_path / name) for name in ("first", "second"))
    manifest = json.loads((second / "bundle.json").read_text())
    for key in ("taken_s", "stalled_since_s"):
        manifest[key] += 900
    if "pid" in change or "launcher" in change:
        for process in manifest["processes"]:
            process["pid"] += 90_000
    if "launcher" in change:
        manifest["launcher"] = 7
        before = json.loads((first / "bundle.json").read_text())
        (first / "bundle.json").write_text(json.dumps({**before, "launcher": 7}))
    shutil.rmtree(second / "dumps", ignore_errors=True)
    shutil.rmtree(second / "logs", ignore_errors=True)
    (second / "bundle.json").write_text(json.dumps(manifest))

    assert len(jobs_in(first, second)) == number
