"""A collective of the probe that did not finish, or ranks that never met.

What happens: real processes do what the job will do, with nothing of the job in them, and some do not come back.

Why it hangs: the transport between them does not work: a wrong interface, a closed port, a broken direct path between
cards. The job would hang in its first collective and end at its limit, minutes later.

Example: the host name resolves to 127.0.1.1, so that one node offers the other an address only it can reach.

Fix: `unhang bisect` finds the smallest setting that gets around it, and names the repair.

Certain when: never; that it did not finish is seen, why is not.

Possible when: NCCL; nothing of it was run where this was written.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.probe_results.probe_results import ProbeResult, ProbeStep
from unhang.check.risks.risk import Answer, could_not, risk
from unhang.findings import Cause, Certainty, Evidence, NotChecked, PassedCheck, Remedy, RemedyKind, Source
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import Text, say

CHECK = "probe"


def ask(here: NodeInspection) -> Iterator[Answer]:
    """Judge whether all ranks met and every step ended."""
    result = here.result(ProbeResult)
    gap = could_not(CHECK, say("Whether the ranks can talk to each other"), result)
    if gap is not None:
        yield gap
    probed = result.found
    if probed is None:
        return
    if probed.missing:
        yield _not_met(probed)
        return
    failure = probed.failure
    if failure is not None:
        yield _stuck(probed, failure)
        return
    if probed.left:
        what = say("{count} steps of the probe", count=probed.left)
        yield NotChecked(what, say("the time was up before them"), "unhang check --only probe", check=CHECK)
    if not probed.steps:
        return
    yield PassedCheck(
        CHECK,
        say(
            "{ranks} ranks over {backend}: every step finished, in {seconds:.1f} s",
            ranks=probed.ranks,
            backend=probed.backend,
            seconds=probed.took_s,
        ),
    )
    if probed.failed_once:
        what = say("a first try did not finish within {seconds:g} s, the second did", seconds=probed.limit_s)
        yield PassedCheck(CHECK, what)
    yield from _not_tried(probed)


def _not_met(probed: ProbeResult) -> Answer:
    return risk(
        CHECK,
        probed.place,
        Cause.RENDEZVOUS,
        say("{ranks:who} did not come to the rendezvous at {place}", ranks=probed.missing, place=probed.place),
        ranks=probed.missing,
        remedies=(
            Remedy(
                say("See whether that place can be reached from those nodes"),
                RemedyKind.COLLECT,
                say("on the node that is missing: nc -vz {place}", place=probed.place.replace(":", " ")),
                say("none"),
                say("unhang check --only probe, under the launcher of the job"),
            ),
        ),
    )


def _stuck(probed: ProbeResult, step: ProbeStep) -> Answer:
    guilty = probed.guilty
    waited = step.absent or step.stuck
    return risk(
        CHECK,
        step.operation,
        _cause(probed, step),
        _summary(step, waited, probed.limit_s),
        certainty=Certainty.POSSIBLE if probed.backend == "nccl" else Certainty.LIKELY,
        ranks=guilty or waited,
        nodes=tuple(dict.fromkeys(probed.nodes[rank] for rank in guilty)) if probed.several_nodes else (),
        because=tuple(_because(probed, step)),
        evidence=(Evidence(Source("probe"), step.error),) if step.error else (),
        remedies=tuple(_remedies(probed)),
    )


def _summary(step: ProbeStep, waited: tuple[int, ...], limit_s: float) -> Text:
    if step.operation == "connect":
        return say(
            "A probe of {count} ranks did not connect within {seconds:.0f} s: {ranks:who} did not come back",
            count=max(map(len, step.groups)),
            seconds=limit_s,
            ranks=waited,
        )
    return say(
        "{operation} of {size} KB did not finish within {seconds:.0f} s: {ranks:who} did not come back",
        operation=step.operation,
        size=step.size >> 10,
        seconds=limit_s,
        ranks=waited,
    )


def _cause(probed: ProbeResult, step: ProbeStep) -> Cause:
    if "Duplicate GPU" in step.error:
        return Cause.DEVICE_MAPPING
    if probed.backend == "nccl" and not probed.several_nodes:
        return Cause.P2P_BROKEN
    return Cause.NETWORK_CONFIG if step.operation == "connect" else Cause.NETWORK_FAULT


def _because(probed: ProbeResult, step: ProbeStep) -> Iterator[Text]:
    if step.absent and step.stuck:
        yield say("{ranks:who} {ranks:is|are} waiting there", ranks=step.stuck)
    if step.error:
        yield say("{backend} says: {error}", backend=probed.backend, error=step.error)
    finished = [done for done in probed.steps if not done.failed and done.operation != "connect" and done.call_s]
    if finished:
        yield say("{count} steps before it finished", count=len(finished))
    if probed.guilty:
        yield say(
            "Tried apart in {rounds} rounds: whatever group {ranks:who} {ranks:is|are} in fails, all others work",
            rounds=len(probed.rounds),
            ranks=probed.guilty,
        )
    elif probed.rounds and not any(round_.failed for round_ in probed.rounds):
        yield say("Every smaller group works; only all of them together do not")
    elif probed.rounds:
        failed = len({group for round_ in probed.rounds for group in round_.failed})
        yield say("Tried apart, {count} groups fail as well; no single rank is to blame", count=failed)


def _remedies(probed: ProbeResult) -> Iterator[Remedy]:
    again = say("unhang check --only probe")
    if probed.guilty and probed.several_nodes and len(set(probed.nodes)) > 2:
        nodes = ", ".join(dict.fromkeys(probed.nodes[rank] for rank in probed.guilty))
        yield Remedy(
            say("Run without {nodes} until it is repaired", nodes=nodes),
            RemedyKind.INFRASTRUCTURE,
            say("srun --exclude, or take it out of the host file"),
            say("one node less"),
            again,
        )
    yield Remedy(
        say("Find the smallest setting that gets around it"),
        RemedyKind.COLLECT,
        say("unhang bisect"),
        say("some minutes at most; nothing is changed"),
        again,
    )


def _not_tried(probed: ProbeResult) -> Iterator[NotChecked]:
    without = {step.operation: step.unsupported for step in probed.steps if step.unsupported}
    for operation, reason in without.items():
        what = say("{operation} over {backend}", operation=operation, backend=probed.backend)
        yield NotChecked(what, say("it says: {reason}", reason=reason), check=CHECK)
    if probed.planned is not None and probed.planned > probed.ranks:
        yield NotChecked(
            say("Collectives of all {planned} ranks of the job", planned=probed.planned),
            say("this probe had {ranks} ranks on one machine", ranks=probed.ranks),
            "srun unhang check --only probe",
            check=CHECK,
        )
