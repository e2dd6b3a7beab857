"""What `make test` leaves to `make test-live`: the whole matrix of real jobs, which takes a quarter of an hour.

Every lab case is in `make test` as a recorded bundle (tests/cases/*/hit_lab_*); a few of each kind also run for real.
"""

from __future__ import annotations

import pytest

QUICK_CASES = {
    "test_lab_cases.py": {"missing-rank", "split-without-seed", "rank0-tokenises", "killed", "stopped", "healthy"},
    "test_run_cases.py": {"missing-rank", "stopped", "rank0-tokenises"},
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the other cases of these matrices as ``live``."""
    for item in items:
        quick = QUICK_CASES.get(item.path.name)
        case = item.callspec.params.get("case") if hasattr(item, "callspec") else None
        if quick is not None and case is not None and case.name not in quick:
            item.add_marker(pytest.mark.live)
