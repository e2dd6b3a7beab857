"""Ranks that may run a different number of steps by their configuration.

What happens: ``even_batches: false`` gives one rank a batch more; an early stop on a value that only one rank sees
takes it out of the loop.

Why it hangs: the rank with one batch more waits in a collective that the others never enter.

Example: accelerate's ``even_batches: false`` without ``join_uneven_inputs``.

Fix: leave ``even_batches`` on, or train under ``accelerator.join_uneven_inputs``.

Certain when: never; the data may divide.

Possible when: the switch is off.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Remedy, RemedyKind
from unhang.host.inspection_result import NodeInspection
from unhang.program.settings.job_values import job_value
from unhang.sentences import say

CHECK = "configuration"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge the switch."""
    even = job_value(here, "even_batches", "accelerator_config.even_batches", "dataloader_config.even_batches")
    if even is None or even.truth is not False:
        return
    yield risk(
        CHECK,
        even.name,
        Cause.UNEVEN_DATA,
        say("even_batches is off: one rank may get a batch more than the others"),
        certainty=Certainty.POSSIBLE,
        evidence=(even.evidence,),
        remedies=(
            Remedy(
                say("Leave even_batches on"),
                RemedyKind.CONFIG,
                say("even_batches: true, or train under accelerator.join_uneven_inputs"),
                say("a few samples are seen twice"),
                say("print len(loader) on every rank: one number"),
            ),
        ),
    )
