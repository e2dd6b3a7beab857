"""A barrier that lets the main process go first is known by its name, in a live stack and in a traceback."""

from __future__ import annotations

from pathlib import Path

from unhang.evidence.inputs import read_evidence
from unhang.evidence.items import Frame
from unhang.facts.build import build_facts
from unhang.facts.laggard.main_process_first import main_first_in_frames, main_first_of_stall

CASES = Path(__file__).parents[2] / "cases" / "single-rank-work"


def test_a_waiter_that_gave_up_tells_it_by_its_traceback() -> None:
    facts = build_facts(read_evidence([str(CASES / "hit_the_waiter_gave_up_at_the_turnstile" / "input")]))

    assert [main_first_of_stall(facts, stall) for stall in facts.stalls] == ["main_process_first"]


def test_a_plain_barrier_is_none() -> None:
    facts = build_facts(read_evidence([str(CASES / "hit_lab_rank0_tokenises" / "input")]))

    assert [main_first_of_stall(facts, stall) for stall in facts.stalls] == [None]


def test_a_method_is_named_without_its_class() -> None:
    library = "/opt/venv/lib/python3.11/site-packages/transformers/training_args.py"
    frames = (Frame("barrier", "c10d.py", 1), Frame("TrainingArguments.main_process_first", library, 2141))

    assert main_first_in_frames(frames) == "main_process_first"
