"""A variable that is set twice, differently.

What happens: NCCL reads its configuration files after the shell and never overwrites: the shell's value is in force,
and a file that an administrator or a colleague wrote has no effect; on a node without the shell's it has.

Why it hangs: nodes run with different settings, or the wrong interface is chosen.

Example: ``NCCL_SOCKET_IFNAME=eth0`` in the shell, ``NCCL_SOCKET_IFNAME=bond0`` in ``/etc/nccl.conf``.

Fix: set it in one place.

Certain when: both stand there with different values.

Possible when: never.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, could_not, risk
from unhang.check.risks.variables.variable_families import CHECK, quote, stall_of
from unhang.findings import Certainty, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.program.launch.job_environment import JobEnvironment
from unhang.sentences import Text, say


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One note for each variable with two values."""
    result = here.result(JobEnvironment)
    gap = could_not(CHECK, say("What NCCL's configuration files set"), result)
    if gap is not None:
        yield gap
    for winner, loser in result.found.shadowed if result.found is not None else ():
        yield risk(
            CHECK,
            winner.name,
            stall_of(winner.name),
            say(
                "{name} is {value} by {place}; {other} says {second}, which has no effect",
                name=winner.name,
                value=winner.value,
                place=winner.origin,
                other=loser.origin,
                second=loser.value,
            ),
            certainty=Certainty.CERTAIN,
            severity=Severity.NOTE,
            evidence=(quote(winner), quote(loser)),
            remedies=(
                Remedy(
                    say("Set {name} in one place", name=winner.name),
                    RemedyKind.CONFIG,
                    Text(""),
                    say("none"),
                    say("NCCL_DEBUG=INFO prints the value in force"),
                ),
            ),
        )
