"""Stacks as the page shows them: the laggard's main thread first, what libraries do in between folded."""

from __future__ import annotations

from dataclasses import replace

from tests.report import fact_samples
from tests.test_cases import CASES, jobs_of
from unhang.evidence.items import Frame
from unhang.report.html.late_ranks import late_ranks
from unhang.report.html.stack_groups import StackGroup, stack_groups
from unhang.report.localizer import Localizer


def shown(group: StackGroup) -> list[str]:
    return [run.folded or run.frames[0].function for run in group.runs]


def test_the_laggard_comes_first_and_the_frames_of_libraries_are_one_line() -> None:
    job = jobs_of(CASES / "single-rank-work" / "hit_polls_for_a_file_that_never_comes")[0]
    groups, _ = stack_groups(job.facts, late_ranks(job.verdict, job.facts), Localizer())

    assert [group.laggard for group in groups[:2]] == [True, False]
    assert groups[0].phase == ""
    assert any("library frames, called as" in line for line in shown(groups[1]))
    assert all(run.frames[0].own for group in groups for run in group.runs if not run.folded and len(run.frames) > 1)


def test_a_stack_without_a_line_of_the_users_own_stays_whole() -> None:
    facts = fact_samples.facts()
    library = tuple(Frame(name, f"/venv/lib/python3.11/site-packages/torch/{name}.py", 7) for name in ("a", "b", "c"))
    known = facts.ranks[3]
    assert known.activity is not None
    facts.ranks = {
        **facts.ranks,
        3: replace(known, activity=replace(known.activity, frames=library)),
    }
    groups, _ = stack_groups(facts, frozenset({3}), Localizer())

    assert [run.folded for run in groups[0].runs] == [""]
    assert [frame.function for frame in groups[0].runs[0].frames] == ["a", "b", "c"]
