"""The program's own rule about its batches, worked out before it starts.

What happens: a trainer stops with an error where batch, ranks and generations do not divide.

Why it hangs: it need not; ranks that stop at another time than the rest leave them waiting, and the job is lost.

Example: ``if num_generations not in possible_values: raise ValueError`` in a GRPO trainer, with 6 ranks and 8 answers.

Fix: numbers that satisfy the rule as it stands in the source.

Certain when: never; a value may be changed before the rule is asked.

Possible when: all values of the rule are known, and it raises.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Evidence, PassedCheck, Remedy, RemedyKind, Source, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.settings.batch_requirements import BatchRequirement, batch_requirements
from unhang.sentences import say

CHECK = "program"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Each rule that could be worked out: it holds, or the job stops there."""
    for rule in batch_requirements(here):
        if rule.holds:
            yield PassedCheck(
                CHECK,
                say(
                    "the program's own rule at {place} lets it go on ({formula}): {values}",
                    place=f"{rule.path}:{rule.line}",
                    formula=_formula(rule),
                    values=_values(rule),
                ),
            )
        else:
            yield _finding(rule)


def _formula(rule: BatchRequirement) -> str:
    return "; ".join((f"if {rule.formula}: raise", *rule.where))


def _values(rule: BatchRequirement) -> str:
    return ", ".join(f"{name}={value}" for name, value in rule.values)


def _finding(rule: BatchRequirement) -> Answer:
    return risk(
        CHECK,
        f"{rule.path}:{rule.line}",
        Cause.RANK_CRASHED,
        say("the program stops by its own rule: {values}", values=_values(rule)),
        where=Where(rule.path, rule.line, rule.function),
        certainty=Certainty.LIKELY,
        because=(say("the rule as it stands there: {formula}", formula=_formula(rule)),),
        evidence=(Evidence(Source(rule.path, rule.line), _formula(rule)),),
        remedies=(
            Remedy(
                say("Choose numbers that divide"),
                RemedyKind.CONFIG,
                say("values for which this is false: {formula}", formula=rule.formula),
                say("other values than were meant"),
                say("unhang check --only program"),
            ),
        ),
    )
