"""What is advised where one rank slows a job that moves, by what was seen of it."""

from __future__ import annotations

import pytest

from tests.test_cases import CASES, decide

FIRST = {
    "slow-rank/hit_pace_at_a_line_where_no_other_rank_is": "Collect garbage at job.py:25 (add) less often",
    "slow-rank/hit_pace_at_the_lines_where_all_are": "Compare the batches of rank 1 with the other ranks'",
    "slow-rank/hit_attach_longer_sequences_on_one_rank": "Compare the batches of rank 1 with the other ranks'",
    "slow-rank/hit_two_looks_and_neighbour_takes_its_processors": "Free CPUs on",
    "slow-rank/hit_two_looks_and_process_bound_to_its_processor": "Move process 18504 off the CPUs of rank 0",
    "slow-data-loading/hit_pace_a_worker_reads_slowly": "Speed up rank 1's loader worker at volume.py:15 (Volume.read)",
    "slow-data-loading/hit_pace_the_rank_makes_its_batches": "Build rank 1's batches in loader workers",
}


@pytest.mark.parametrize(("case", "title"), FIRST.items(), ids=FIRST)
def test_the_first_remedy_is_about_what_was_seen(case: str, title: str) -> None:
    assert str(decide(CASES / case).findings[0].remedies[0].title).startswith(title)
