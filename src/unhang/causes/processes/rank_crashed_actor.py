"""rank-crashed: an actor that is a rank has ended its call, and waits for the next one.

What happens: the method of one actor raised (or returned) in the middle of the training; its process lives on.
Why it hangs: an exception of an actor goes to whoever asks for its result, and nobody asks before the others are done.
Example: `ray.get(runs[0])` in the driver, while the method behind `runs[1]` has raised `IndexError`.
Fix: ask for all results at once (`ray.wait`), which raises the exception of the first that fails.
Certain when: never: the process does not tell how its last call ended.
Possible when: likely, where its stack shows it in the loop that waits for the next call.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult
from unhang.causes.wording.stall_signal import stall_signal, waiters_line
from unhang.facts.laggard.laggards import IdleActor, laggards_doing
from unhang.facts.model import Facts
from unhang.findings import Cause, Grade
from unhang.knowledge.remedies import remedy
from unhang.sentences import say

CAUSE = Cause.RANK_CRASHED


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Laggards without a call, while the others are in theirs."""
    for at, _ in laggards_doing(facts, IdleActor):
        stall = at.stall
        yield stall_signal(
            CAUSE,
            Grade.STACK,
            say(
                "{ranks:who} {ranks:has|have} left the method of the actor, most likely by an exception; the others "
                "are still in it",
                ranks=stall.laggards,
            ),
            facts,
            stall,
            because=(
                say("{ranks:who} {ranks:waits|wait} for the next call of an actor", ranks=stall.laggards),
                *waiters_line(stall),
                say("what an actor raises is told to whoever asks for its result, and to nobody before"),
            ),
            remedies=(remedy("await-all-actors-together"),),
        )
