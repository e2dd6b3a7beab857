"""Risks that the collective probe showed: ranks that do not come back, wrong results, links that crawl."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from unhang.check.probe_results.probe_results import ProbeResult, ProbeStep
from unhang.check.probe_results.speeds import MB, SlowCollectives, SlowPairs, fastest, find_slow_collectives, slow_pairs
from unhang.check.risks.risk import Answer, RiskRows, asked_of_a_node
from unhang.findings import Cause, Evidence, Finding, Grade, PassedCheck, Remedy, Source
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import Text

ROWS = RiskRows("probe")


def probe_stuck(here: NodeInspection) -> Iterator[Answer]:
    """A transport that does not work lets the job hang in its first collective, and end at its limit, minutes later."""
    result = here.result(ProbeResult)
    yield from ROWS.gap("stuck", result)
    probed = result.found
    if probed is None:
        return
    if probed.missing:
        values = {"ranks": probed.missing, "place": probed.place, "target": probed.place.replace(":", " ")}
        yield ROWS.risk("not-met", values, ranks=probed.missing)
        return
    if probed.failure is not None:
        yield _stuck(probed, probed.failure)
        return
    if probed.left:
        yield ROWS.could_not("steps-left", ROWS.words("time-was-up"), "unhang check --only probe", count=probed.left)
    if not probed.steps:
        return
    yield ROWS.fine("stuck", ranks=probed.ranks, backend=probed.backend, seconds=probed.took_s)
    if probed.failed_once:
        yield ROWS.fine("second-try", seconds=probed.limit_s)
    unsupported = {step.operation: step.unsupported for step in probed.steps if step.unsupported}
    for operation, reason in unsupported.items():
        because = ROWS.words("backend-refuses", reason=reason)
        yield ROWS.could_not("operation", because, operation=operation, backend=probed.backend)
    if probed.planned is not None and probed.planned > probed.ranks:
        because = ROWS.words("ranks-of-one-machine", ranks=probed.ranks)
        yield ROWS.could_not("all-ranks", because, "srun unhang check --only probe", planned=probed.planned)


def probe_wrong(here: NodeInspection) -> Iterator[Answer]:
    """Training goes on with wrong gradients on some ranks; one stops early or gets a NaN, the others wait for it."""
    probed = here.found(ProbeResult)
    if probed is None:
        return
    wrong = [step for step in probed.steps if step.wrong]
    if not wrong:
        if any(step.call_s for step in probed.steps):
            yield ROWS.fine("wrong")
        return
    ranks, first = tuple(sorted({rank for step in wrong for rank in step.wrong})), wrong[0]
    yield ROWS.risk(
        "wrong",
        {
            "operation": first.operation,
            "size": first.size >> 10,
            "first": first.wrong,
            "count": len(wrong),
            "ranks": ranks,
        },
        cause=Cause.GPU_HARDWARE if probed.backend == "nccl" else None,
        grade=_grade(probed),
        ranks=ranks,
        nodes=_nodes(probed, ranks),
    )


def probe_slow(here: NodeInspection) -> Iterator[Answer]:
    """Every collective waits for its slowest link, and reaches the limit although nothing in the job looks wrong."""
    probed = here.found(ProbeResult)
    if probed is None or probed.failure is not None:
        return
    crawl, slow = find_slow_collectives(probed), slow_pairs(probed)
    if crawl is not None:
        yield _crawls(probed, crawl)
    for found in slow:
        yield _beside_others(probed, found)
    if crawl is None and not slow:
        yield from _fast(probed)


def _grade(probed: ProbeResult) -> Grade | None:
    """Nothing of NCCL was run where this was written; another job may have been in the way."""
    return Grade.BASE_RATE if probed.backend == "nccl" else None


def _nodes(probed: ProbeResult, ranks: Sequence[int]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(probed.nodes[rank] for rank in ranks)) if probed.several_nodes else ()


def _stuck(probed: ProbeResult, step: ProbeStep) -> Finding:
    waited = step.absent or step.stuck
    cause = None
    if "Duplicate GPU" in step.error:
        cause = Cause.DEVICE_MAPPING
    elif probed.backend == "nccl" and not probed.several_nodes:
        cause = Cause.P2P_BROKEN
    return ROWS.risk(
        "not-connected" if step.operation == "connect" else "stuck",
        {
            "operation": step.operation,
            "size": step.size >> 10,
            "count": max(map(len, step.groups)),
            "seconds": probed.limit_s,
            "ranks": waited,
        },
        cause=cause,
        grade=_grade(probed),
        ranks=probed.guilty or waited,
        nodes=_nodes(probed, probed.guilty),
        because=tuple(_because(probed, step)),
        evidence=(Evidence(Source("probe"), step.error),) if step.error else (),
        remedies=tuple(_remedies(probed)),
    )


def _because(probed: ProbeResult, step: ProbeStep) -> Iterator[Text]:
    if step.absent and step.stuck:
        yield ROWS.words("waiting", ranks=step.stuck)
    if step.error:
        yield ROWS.words("backend-says", backend=probed.backend, error=step.error)
    finished = [done for done in probed.steps if not done.failed and done.operation != "connect" and done.call_s]
    if finished:
        yield ROWS.words("steps-before", count=len(finished))
    failed = {group for round_ in probed.rounds for group in round_.failed}
    if probed.guilty:
        yield ROWS.words("guilty", rounds=len(probed.rounds), ranks=probed.guilty)
    elif failed:
        yield ROWS.words("groups-fail", count=len(failed))
    elif probed.rounds:
        yield ROWS.words("only-together")


def _remedies(probed: ProbeResult) -> Iterator[Remedy]:
    if probed.guilty and len(set(probed.nodes)) > 2:
        yield ROWS.remedy("run-without-nodes", {"nodes": ", ".join(_nodes(probed, probed.guilty))})
    yield ROWS.remedy("bisect")


def _fast(probed: ProbeResult) -> Iterator[PassedCheck]:
    best = fastest(probed)
    if best is None:
        return
    step, bus = best
    latency = min(step.call_s for step in probed.steps if step.call_s)
    yield ROWS.fine("speed", operation=step.operation, bus=bus / MB, latency=latency * 1e6)
    if len(probed.pairs) > 2:
        speeds = [pair.bandwidth / MB for pair in probed.pairs]
        yield ROWS.fine("pairs", count=len(speeds), least=min(speeds), most=max(speeds))


def _crawls(probed: ProbeResult, crawl: SlowCollectives) -> Finding:
    floor = crawl.floor / MB
    because = [ROWS.words("little-for-kind", floor=floor)]
    if probed.link is not None:
        because = [ROWS.words("little-for-link", interface=probed.interface, link=probed.link / MB, floor=floor)]
    if any(step.left_out for step in probed.steps):
        because.append(ROWS.words("large-left-out"))
    operation = crawl.step.operation
    return ROWS.risk(
        "crawls",
        {"operation": operation, "backend": probed.backend, "bus": crawl.bus / MB, "ranks": probed.ranks},
        subject=probed.interface or operation,
        cause=Cause.NETWORK_CONFIG if probed.several_nodes or probed.backend == "gloo" else None,
        grade=_grade(probed),
        because=tuple(because),
    )


def _beside_others(probed: ProbeResult, slow: SlowPairs) -> Finding:
    pair = slow.pairs[0] if slow.pairs else None
    ranks = slow.ranks or tuple(pair or ())
    own = max(
        one.bandwidth for one in probed.pairs if set(one.ranks) & set(slow.ranks) or tuple(sorted(one.ranks)) == pair
    )
    between = len({probed.nodes[rank] for rank in ranks}) > 1 or (slow.ranks and probed.several_nodes)
    return ROWS.risk(
        "slow-rank" if slow.ranks else "slow-pair",
        {"ranks": ranks, "own": own / MB, "usual": slow.usual / MB},
        subject=", ".join(probed.devices[rank] or str(rank) for rank in ranks) if probed.devices else None,
        cause=Cause.NETWORK_FAULT if between else None,
        grade=_grade(probed),
        ranks=ranks,
        nodes=_nodes(probed, ranks),
    )


RISKS = asked_of_a_node("probe", probe_stuck, probe_wrong, probe_slow)
