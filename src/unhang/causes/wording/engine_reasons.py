"""What is said of workers of a serving engine."""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import Signal
from unhang.causes.wording.signals import stall_signal
from unhang.facts.laggard.laggards import WithoutStep, laggards_doing
from unhang.facts.model import Facts
from unhang.findings import Grade
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences

tell = Sentences("causes/rank-conditional-collective.toml")


def without_step(facts: Facts) -> Iterator[Signal]:
    """Workers of an engine that wait for their next step, while others are in a collective of one."""
    for at, _ in laggards_doing(facts, WithoutStep):
        stall = at.stall
        yield stall_signal(
            Grade.STACK,
            tell("without-step", ranks=stall.laggards, waiters=stall.direct_waiters),
            facts,
            stall,
            because=(tell("waits-for-step", ranks=stall.laggards), tell("every-rank-runs")),
            remedies=(remedy("run-step-on-every-rank"),),
        )
