"""What `make test` leaves to `make test-live`: the whole matrix of real jobs, which takes a quarter of an hour.

Every lab case is in `make test` as a recorded bundle (tests/cases/*/hit_lab_*); a few of each kind also run for real.
"""

from __future__ import annotations

import pytest

QUICK_CASES = {
    "test_lab_cases.py": {"missing-rank", "split-without-seed", "killed", "healthy"},  # others: test_run_cases.py
    "test_run_cases.py": {"missing-rank", "stopped", "rank0-tokenises"},
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
    "test_launchers.py": set(),
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is not quick in these files as ``live``."""
    for item in items:
        if not _is_quick(item):
            item.add_marker(pytest.mark.live)


def _is_quick(item: pytest.Item) -> bool:
    if item.path.name in QUICK_TESTS:
        return item.name in QUICK_TESTS[item.path.name]
    quick = QUICK_CASES.get(item.path.name)
    case = item.callspec.params.get("case") if hasattr(item, "callspec") else None
    return quick is None or case is None or case.name in quick
