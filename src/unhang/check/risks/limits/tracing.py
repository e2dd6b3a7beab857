"""Nobody may look at the stacks of a running rank.

What happens: the kernel's Yama module lets only a parent look into a process, and this user has no capability for more.

Why it hangs: it does not; but ``unhang attach`` and ``py-spy`` will not see Python lines of a job that was started
without ``unhang run``.

Example: ``kernel.yama.ptrace_scope = 1`` on Ubuntu, or a container without ``SYS_PTRACE``.

Fix: start the job with ``unhang run``, which needs nothing; or ``sudo sysctl kernel.yama.ptrace_scope=0``; or
``docker run --cap-add SYS_PTRACE``.

Certain when: the scope is 1 or more, and the capability is missing.

Possible when: never.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.machine_limits import Tracing
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import say

CHECK = "limits"
NOBODY = 3


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge whether stacks can be seen later."""
    result = here.result(Tracing)
    gap = could_not(CHECK, say("Whether stacks of running ranks can be seen"), result)
    if gap is not None:
        yield gap
    if result.found is None:
        return
    scope = result.found.scope
    if scope == 0 or (result.found.may_trace and scope < NOBODY):
        yield PassedCheck(CHECK, say("stacks of running ranks can be seen"))
        return
    yield risk(
        CHECK,
        "ptrace",
        Cause.UNKNOWN,
        say("Stacks of ranks that are already running cannot be seen here (ptrace_scope is {scope})", scope=scope),
        certainty=Certainty.CERTAIN,
        severity=Severity.NOTE,
        remedies=(
            Remedy(
                say("Start jobs with unhang run, which needs no such right"),
                RemedyKind.INFRASTRUCTURE,
                say("or sudo sysctl kernel.yama.ptrace_scope=0; or docker run --cap-add SYS_PTRACE"),
                say("with scope 0 a user's processes may look into each other"),
                say("py-spy dump --pid PID of a process of yours answers"),
            ),
        ),
    )
