"""A part of the model that only some batches use.

What happens: ``forward`` calls one of the model's modules only where this rank's batch has something for it: an image,
a box, a positive mask.

Why it hangs: DistributedDataParallel reduces gradients in the order in which they become ready and waits for those of
every parameter; FSDP and ZeRO-3 gather the parameters of each module when it is called. A rank whose batch has nothing
skips them, and the others wait, or meet it in the next ones.

Example: ``if pixel_values is not None: features = self.tower(pixel_values)`` with text-only samples among the others.

Fix: run the module on a dummy input where there is none, and add its output times zero.

Certain when: never; the data may never lack it.

Possible when: the test asks what the batch holds, and the other side never calls the module.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.program.program_places import found_in, place, quotes
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Remedy, RemedyKind, Severity, Where
from unhang.host.inspection_result import NodeInspection
from unhang.program.paths.divergent_paths import PathDivergence
from unhang.program.program_source import ProgramSource
from unhang.sentences import say

CHECK = "program"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each branch."""
    return found_in(here, lambda ways: ways.left_out, _finding)


def _finding(one: PathDivergence, program: ProgramSource) -> Answer:
    return risk(
        CHECK,
        f"{one.branch.path}:{one.branch.line}:{one.call.text}",
        Cause.RANK_CONDITIONAL_COLLECTIVE,
        say(
            "{part} is left out where {test} decides so for this rank's batch: its gradients are missing there",
            part=one.call.text,
            test=one.branch.text,
        ),
        certainty=Certainty.POSSIBLE,
        severity=Severity.NOTE,
        where=Where(one.branch.path, one.branch.line, one.branch.function),
        because=(
            say(
                "the other ranks wait for its gradients (DistributedDataParallel without find_unused_parameters=True), "
                "or for its parameters to be gathered"
            ),
            say("the part is called at {place}", place=place(one.call)),
        ),
        evidence=tuple(quotes(program, (one.branch, *one.chain, one.call))),
        remedies=(
            Remedy(
                say("Run it on a dummy input where the batch has nothing for it"),
                RemedyKind.CODE,
                say("output = output + 0.0 * {part}(dummy).sum()", part=one.call.text),
                say("the time of one small forward in such steps"),
                say("unhang check --only program no longer names it"),
            ),
        ),
    )
