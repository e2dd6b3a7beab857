"""Groups that do not inherit the limit.

What happens: the limit given to ``init_process_group`` holds for the first group only. ``new_group``, a device mesh
and a split get the default of their class: 600 s with NCCL, 1,800 s otherwise.

Why it hangs: "the timeout was raised", and the save or the tensor-parallel group still times out after ten minutes.

Example: ``init_process_group(timeout=timedelta(hours=2))`` and ``new_group(ranks)`` without ``timeout``.

Fix: give the same limit to every group.

Certain when: both calls stand in the program.

Possible when: libraries make the groups; then nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.timers import Timers
from unhang.check.risks.risk import Answer, risk
from unhang.findings import Cause, Certainty, Remedy, RemedyKind, Severity, Where
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import say

CHECK = "timers"
DEFAULT_S = 600.0


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each group that is made without a limit beside a first one with a longer limit."""
    timers = here.found(Timers)
    if timers is None:
        return
    raised = next((t for t in timers.of("collective") if t.evidence is not None and t.seconds > DEFAULT_S), None)
    if raised is None or raised.evidence is None:
        return
    for call in timers.groups_without:
        yield risk(
            CHECK,
            f"{call.source.path}:{call.source.line}",
            Cause.TIMEOUT_TOO_SHORT,
            say(
                "this group does not inherit the limit of {seconds:,.0f} s: it gets 600 s with NCCL",
                seconds=raised.seconds,
            ),
            certainty=Certainty.CERTAIN,
            severity=Severity.SLOWS,
            where=Where(call.source.path, call.source.line, ""),
            evidence=(call, raised.evidence),
            remedies=(
                Remedy(
                    say("Give this group the same limit"),
                    RemedyKind.CODE,
                    say("timeout=timedelta(seconds={seconds:.0f})", seconds=raised.seconds),
                    say("none"),
                    say("unhang check --only timers no longer names it"),
                ),
            ),
        )
