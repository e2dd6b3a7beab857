"""timeout-too-short: one rank's answers are longer than the others', and its generation outlasts their limit.

What happens: each rank generates answers to its own prompts; those that are done wait for the one with the longest.
Why it hangs: it does not; the limit passes first. More answers a prompt and a higher length limit make it likelier.
Example: GRPO, `max_completion_length: 16384`: three ranks had short answers, the fourth writes for half an hour.
Fix: shorter answers, an inference engine (vLLM), a limit that the longest answer fits in.
Certain when: never: whether it would have ended in time is not known.
Possible when: never; *likely* from stacks of both sides, or from the traceback of the ranks that gave up.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.longer_generation import LongerGeneration, longer_generation, longer_generation_printed
from unhang.facts.model import Facts
from unhang.findings import Cause, Certainty, Phase, Remedy, Text, say
from unhang.rules.evidence_lines import hosts_of
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.TIMEOUT_TOO_SHORT


def check(facts: Facts) -> Iterator[Answer]:
    """From stacks where there are any, else from what was printed; one answer."""
    found = next((one for stall in facts.stalls if (one := longer_generation(facts, stall)) is not None), None)
    found = found or longer_generation_printed(facts)
    if found is None:
        return
    yield finding(
        CAUSE,
        Certainty.LIKELY,
        say(
            "{ranks:who} still {ranks:generates|generate} text; "
            "{waiters:who} {waiters:is|are} done and {waiters:waits|wait}",
            ranks=found.ranks,
            waiters=found.waiters,
        )
        if found.ranks
        else say("other ranks still generate text; {waiters:who} waited for them", waiters=found.waiters),
        ranks=found.ranks,
        nodes=hosts_of(facts, found.ranks),
        phase=Phase.EVAL,
        where=found.where,
        waiter_where=found.waiter_where,
        because=tuple(_because(found)),
        evidence=found.evidence,
        remedies=(_shorter(), _engine(), _longer()),
    )


def _because(found: LongerGeneration) -> Iterator[Text]:
    if found.seen:
        yield say("all of them are in {function}; the others are past the generation in it", function=found.function)
    else:
        yield say(
            "{waiters:who} gave up in {function}, behind the generation; the other ranks did not time out",
            waiters=found.waiters,
            function=found.function,
        )
    yield say("every rank answers its own prompts, and the longest answer of all ranks decides")
    if found.limit_s is not None:
        yield say("the limit in force is {limit:g} s", limit=found.limit_s)


def _shorter() -> Remedy:
    return remedy("shorten-the-longest-answer-or-generate-fewer")


def _engine() -> Remedy:
    return remedy("generate-with-vllm")


def _longer() -> Remedy:
    return remedy("give-the-group-a-limit-that-the")
