"""An old name that is still read, as long as nothing sets the new one.

What happens: the library reads the new name first and the old one only where the new one is not set. ``torchrun``
exports some of the new names itself.

Why it hangs: it does not; the value somebody relies on is not the one in force.

Example: ``NCCL_ASYNC_ERROR_HANDLING=1`` under ``torchrun``, which sets ``TORCH_NCCL_ASYNC_ERROR_HANDLING=1`` itself.

Fix: set the new name, or take it out.

Certain when: the version that is installed has the new name.

Possible when: the version is not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.variables.variable_families import CHECK, Judged, judged, stall_of
from unhang.findings import Certainty, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.environment_variables import variable
from unhang.knowledge.job.variable_support import VariableSupport
from unhang.program.launch.job_environment import JobEnvironment
from unhang.sentences import Text, say

EXPORTED_BY_TORCHRUN = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
"""torchrun sets it to 1 for its workers unless it is set (torch/distributed/elastic/agent, since 2.2)."""


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One note for each old name."""
    settings = here.found(JobEnvironment)
    for one in judged(here):
        if settings is None or one.standing not in (VariableSupport.OLD_NAME, VariableSupport.DEPRECATED):
            continue
        new = one.row.replacement.split("=")[0]
        summary, wanted = _summary(one, new, settings)
        set_it = {new: one.setting.value} if wanted and variable(new) is not None else {}
        yield risk(
            CHECK,
            one.setting.name,
            stall_of(one.setting.name),
            summary,
            certainty=Certainty.CERTAIN if one.version is not None else Certainty.POSSIBLE,
            severity=Severity.NOTE,
            evidence=(one.evidence,),
            remedies=(
                Remedy(
                    say("Take {name} out; if it is wanted, set {other}", name=one.setting.name, other=new)
                    if new
                    else say("Take {name} out", name=one.setting.name),
                    RemedyKind.ENVIRONMENT,
                    Text(""),
                    say("none"),
                    say("unhang check --only environment no longer names it"),
                    set=set_it,
                    unset=(one.setting.name,),
                ),
            ),
        )


def _summary(one: Judged, new: str, settings: JobEnvironment) -> tuple[Text, bool]:
    """What to say, and whether the value is worth carrying over to the new name."""
    name, owner = one.setting.name, one.row.owner
    other = settings.in_force.get(new)
    if other is not None:
        return say(
            "{name} is an old name; {new}={value} is set too and wins", name=name, new=new, value=other.value
        ), False
    if new == EXPORTED_BY_TORCHRUN:
        return say(
            "{name} is an old name; torchrun exports {new}=1 itself, and that wins: this has no effect there",
            name=name,
            new=new,
        ), False
    if one.standing is VariableSupport.DEPRECATED:
        return say("{name} is deprecated in {owner}; it is still read", name=name, owner=owner), False
    return say("{name} is the old name of {new}; {owner} still reads it", name=name, new=new, owner=owner), False
