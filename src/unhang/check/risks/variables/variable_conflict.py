"""Two settings that get in each other's way.

What happens: one makes the other meaningless, or both together ask for what cannot be.

Why it hangs: what somebody set is not what is in force; in some pairs the job stops at its start.

Example: ``NCCL_P2P_DISABLE=1`` beside ``NCCL_P2P_LEVEL=NVL``: the level is not read then.

Fix: keep the one that is meant.

Certain when: both are set to the values that collide.

Possible when: the version is not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.variables.variable_families import CHECK, judged, quote, stall_of
from unhang.findings import Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.environment_variables import variable
from unhang.knowledge.job.parsed_values import parse_value
from unhang.knowledge.job.variable_support import VariableSupport
from unhang.program.launch.job_environment import JobEnvironment
from unhang.sentences import Text, say

_READ = (VariableSupport.READ, VariableSupport.OLD_NAME, VariableSupport.DEPRECATED)


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One note for each variable that another one makes meaningless. A row names the other as ``NAME=value``."""
    settings = here.found(JobEnvironment)
    for one in judged(here):
        if settings is None or one.standing not in _READ:
            continue
        for conflict in one.row.conflicts:
            other, sign, value = conflict.other.partition("=")
            if not sign or not _is_set(settings, other, value):
                continue
            pair = {"name": one.setting.name, "other": f"{other}={value}", "why": conflict.why}
            yield risk(
                CHECK,
                one.setting.name,
                stall_of(one.setting.name),
                say("{name} beside {other}: {why}", **pair),
                severity=Severity.NOTE,
                evidence=(one.evidence, quote(settings.in_force[other])),
                remedies=(
                    Remedy(
                        say("Keep only the one that is meant"),
                        RemedyKind.ENVIRONMENT,
                        Text(""),
                        say("none"),
                        say("unhang check --only environment no longer names it"),
                        unset=(one.setting.name,),
                    ),
                ),
            )


def _is_set(settings: JobEnvironment, name: str, value: str) -> bool:
    setting, row = settings.in_force.get(name), variable(name)
    if setting is None or row is None:
        return False
    return parse_value(row, setting.value).value.upper() == parse_value(row, value).value.upper()
