"""Several jobs run on this machine and none was named: the one that stands still is meant."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from unhang.watch.process_state.proc_processes import backend_of
from unhang.watch.process_state.progress_between_samples import has_moved
from unhang.watch.process_state.rank_processes import LiveRank
from unhang.watch.process_state.stack_collection import ProcessSample, sample_process

SAMPLE_PAUSE_S = 1.0
MAX_RANKS = 4
"""So many ranks of each job are sampled: a job of which one waits for another stands still on most of them."""


def stuck_jobs(jobs: Mapping[tuple[str, ...], Sequence[LiveRank]]) -> list[tuple[str, ...]]:
    """Jobs of which some rank did not move between two samples; those whose ranks all moved are left out."""
    looked_at = {job: ranks[:MAX_RANKS] for job, ranks in jobs.items()}
    first = _sample_ranks(looked_at)
    time.sleep(SAMPLE_PAUSE_S)
    second = _sample_ranks(looked_at)
    return [job for job, ranks in looked_at.items() if any(_is_stuck(first[r.pid], second[r.pid]) for r in ranks)]


def _sample_ranks(jobs: Mapping[tuple[str, ...], Sequence[LiveRank]]) -> dict[int, ProcessSample]:
    return {rank.pid: sample_process(rank.pid) for ranks in jobs.values() for rank in ranks}


def _is_stuck(first: ProcessSample, second: ProcessSample) -> bool:
    if not second.kernel.state:
        return False  # it is gone
    return has_moved([first, second], waits_asleep=backend_of(first.pid) != "nccl") is not True
