"""What `make test` leaves to `make test-live`: the whole matrix of real jobs, which takes a quarter of an hour.

Every lab case is in `make test` as a recorded bundle (tests/cases/*/hit_lab_*); a few of each kind also run for real.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.order_of_files import in_good_order
from tests.outcomes import pytest_addoption, pytest_terminal_summary

__all__ = ("pytest_addoption", "pytest_terminal_summary")

_OWN = Path(tempfile.mkdtemp(prefix="unhang-tests-"))
"""What programs under test leave where temporary files lie (torchrun does) goes with the tests."""
_OWN.chmod(0o1777)  # like /tmp: some tests become another user
os.environ["TMPDIR"] = str(_OWN)
# runs of the tests are no part of the history of whoever runs them
os.environ["XDG_STATE_HOME"] = str(_OWN / "state")

# started in the background of a shell, tests and all they start would be deaf to Ctrl-C
signal.signal(signal.SIGINT, signal.default_int_handler)

# how long an example takes says more of what else the machine does than of the example
settings.register_profile("unhang", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhang")

QUICK_CASES = {
    "test_run_cases.py": {"missing-rank", "stopped"},
}
# Programs that are run twice, with us and without; each pair takes seconds.
QUICK_TESTS = {
    "test_signals.py": {
        "test_a_signal_from_a_process_is_heard_as_often[to_the_group]",
    },
    "test_surroundings.py": {
        "test_process_1_passes_signals_on_once",
    },
    "test_attach_jobs.py": {
        "test_the_launcher_names_its_job_and_the_folder_reads_back",
        "test_one_job_on_a_machine_needs_no_argument",
        "test_the_text_says_what_to_do_now",
        "test_without_the_right_to_trace_it_says_who_may_look",
        "test_another_users_job_is_answered_with_who_may_look",
        "test_a_stopped_rank_is_found_and_stays_as_it_was",
    },
    "test_even_batches.py": {
        "test_every_rank_takes_as_many",
        "test_uneven_ranks_are_an_error_when_asked_for[list-rank 1 7, ranks 0, 2 9]",
        "test_a_loader_that_fails_is_heard_of_on_every_rank[4-stream]",
        "test_a_loader_that_fails_is_heard_of_on_every_rank[4-rows]",
        "test_a_rank_that_leaves_alone_is_named[stream]",
        "test_a_rank_that_dies_ends_the_wait",
        "test_it_looks_like_the_loader",
        "test_alone_it_is_the_loader",
    },
    "test_launchers.py": set(),
    "test_with_accelerate.py": {"test_accelerate_trains_as_without_us_and_says_what_it_does"},
    "test_same_job.py": set(),
    "test_tasks.py": {"test_one_watcher_one_folder_and_exit_codes_of_their_own"},
    "test_same_behaviour.py": {
        "test_what_a_program_can_see_of_its_own_process",
        "test_the_users_excepthooks",
        "test_every_way_to_end[os._exit(5)]",
        "test_the_users_faulthandler_set_before",
        "test_the_users_signal_handlers",
        "test_children_of_every_kind",
        "test_a_folder_that_is_missing[run]",
        "test_nothing_of_ours_is_left_when_undone",
        "test_torch_itself_brings_us_in",
    },
}


@pytest.fixture
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that a test writes lie in the folder it runs in."""
    monkeypatch.chdir(tmp_path)


def pytest_unconfigure() -> None:
    """The tests are over."""
    shutil.rmtree(_OWN, ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is not quick in these files as ``live``, and put all in the order in which they are given away."""
    for item in items:
        if not _is_quick(item):
            item.add_marker(pytest.mark.live)
    if len({item.path for item in items}) > 1:
        items[:] = in_good_order(items)


def _is_quick(item: pytest.Item) -> bool:
    if item.path.name in QUICK_TESTS:
        return item.name in QUICK_TESTS[item.path.name]
    quick = QUICK_CASES.get(item.path.name)
    case = item.callspec.params.get("case") if hasattr(item, "callspec") else None
    return quick is None or case is None or case.name in quick
