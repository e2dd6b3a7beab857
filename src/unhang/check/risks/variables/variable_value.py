"""A value that is read as something else than it says.

What happens: NCCL reads numbers with ``strtoll`` and takes ``true`` for 0; torch raises at a truth value it does not
know; an unknown word of an enumeration is ignored.

Why it hangs: the switch is in the other position, or the job stops at its start.

Example: ``NCCL_IB_DISABLE=true`` leaves InfiniBand on; ``NCCL_IB_TIMEOUT=0`` waits for ever.

Fix: the number or word that the library reads.

Certain when: the parser of the version that is installed is known.

Possible when: a type that is not modelled; then nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.variables.variable_families import CHECK, Judged, judged, stall_of
from unhang.findings import Certainty, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.parsed_values import ParseOutcome
from unhang.knowledge.job.variable_support import VariableSupport
from unhang.sentences import Text, say

_READ = (VariableSupport.READ, VariableSupport.OLD_NAME, VariableSupport.DEPRECATED)
_MEANT_ON = ("true", "yes", "on", "y", "t", "enable", "enabled")


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each value that is not what it says."""
    for one in judged(here):
        if one.standing in _READ and one.parsed.outcome is not ParseOutcome.FINE:
            severity, summary = _said(one)
            yield risk(
                CHECK,
                one.setting.name,
                stall_of(one.setting.name),
                summary,
                certainty=Certainty.LIKELY,
                severity=severity,
                evidence=(one.evidence,),
                remedies=(_remedy(one),),
            )


def _said(one: Judged) -> tuple[Severity, Text]:
    name, value, owner = one.setting.name, one.setting.value, one.row.owner
    if one.parsed.outcome is ParseOutcome.RAISES:
        return Severity.STOPS, say("{name}={value} stops {owner} at the start: it is no value", **_parts(one))
    if one.parsed.outcome is ParseOutcome.IGNORED:
        return Severity.NOTE, say(
            "{name}={value} is ignored: {owner} knows {values}",
            name=name,
            value=value,
            owner=owner,
            values=one.row.values,
        )
    severity = Severity.SLOWS if value.strip().lower() in _MEANT_ON else Severity.NOTE
    return severity, say("{name}={value} is read as {read}", name=name, value=value, read=one.parsed.value)


def _parts(one: Judged) -> dict[str, str]:
    return {"name": one.setting.name, "value": one.setting.value, "owner": one.row.owner}


def _remedy(one: Judged) -> Remedy:
    name = one.setting.name
    return Remedy(
        say("Write {name} as {owner} reads it: {values}", name=name, owner=one.row.owner, values=one.row.values),
        RemedyKind.ENVIRONMENT,
        say("or take it out"),
        say("none"),
        say("unhang check --only environment no longer names it"),
        unset=(name,),
    )
