"""A setting that works and costs more than it helps.

What happens: a workaround from another machine is copied; direct transfers, the fabric or the watchdog are off then.

Why it hangs: it slows every collective, so that one that used to finish reaches the limit; or it takes away what would
have told why the job hangs.

Example: ``NCCL_P2P_DISABLE=1`` on a machine with NVLink; ``TORCH_NCCL_BLOCKING_WAIT=1`` in production.

Fix: take it out; where it was needed, repair the reason.

Certain when: the library reads it with that meaning.

Possible when: the version is not known.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.devices.peer_access import has_no_p2p, is_p2p_redirected
from unhang.check.risks.risk import Answer, risk
from unhang.check.risks.variables.variable_families import CHECK, Judged, judged
from unhang.findings import Cause, Certainty, PassedCheck, Remedy, RemedyKind, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.costly_settings import find_costly_setting
from unhang.knowledge.job.variable_support import VariableSupport
from unhang.sentences import Text, say

_READ = (VariableSupport.READ, VariableSupport.OLD_NAME, VariableSupport.DEPRECATED)


def ask(here: NodeInspection) -> Iterator[Answer]:
    """One finding for each costly setting that is in force."""
    for one in judged(here):
        row = find_costly_setting(one.setting.name, one.parsed.value) if one.standing in _READ else None
        if row is None:
            continue
        if one.setting.name == "NCCL_P2P_DISABLE" and has_no_p2p(here):
            yield PassedCheck(CHECK, say("these cards have no P2P that {name} could take away", name=one.setting.name))
            continue
        if one.setting.name == "NCCL_P2P_DISABLE" and is_p2p_redirected(here):
            yield _needed(one)
            continue
        yield risk(
            CHECK,
            one.setting.name,
            Cause(row.cause),
            say(
                "{name}={value} works, and {effect}", name=one.setting.name, value=one.setting.value, effect=row.effect
            ),
            certainty=Certainty.LIKELY if one.version is not None else Certainty.POSSIBLE,
            severity=Severity.SLOWS,
            because=(say("torch's rewritten backend nccl2 is in force: {effect}", effect=one.nccl2),)
            if one.nccl2
            else (),
            evidence=(one.evidence,),
            remedies=(
                Remedy(
                    say("Take {name} out, unless {unless}", name=one.setting.name, unless=row.unless),
                    RemedyKind.ENVIRONMENT,
                    Text(""),
                    say("none where it is not needed"),
                    say("unhang check --only probe, before and after"),
                    unset=(one.setting.name,),
                ),
            ),
        )


def _needed(one: Judged) -> Answer:
    """It works around this very machine: taken out alone, it brings back what it was set against."""
    name = one.setting.name
    return risk(
        CHECK,
        name,
        Cause.P2P_BROKEN,
        say("{name}=1 keeps the cards off the way through the processor, where P2P may never end", name=name),
        severity=Severity.NOTE,
        evidence=(one.evidence,),
        remedies=(
            Remedy(
                say("Keep {name} until that way is gone (ACS off, IOMMU passed through)", name=name),
                RemedyKind.INFRASTRUCTURE,
                say("then take it out, and let `unhang check --only probe` show that the cards still meet"),
                say("until then traffic of one machine goes through host memory"),
                say("unhang check --only topology names no ACS and no IOMMU"),
            ),
        ),
    )
