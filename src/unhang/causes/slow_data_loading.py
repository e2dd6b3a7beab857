"""slow-data-loading: a data-loader worker or the storage stalls, and one rank waits for its next batch.

What happens: one rank's training thread waits in the loader's queue; its worker is blocked in a read or is gone.
Why it hangs: this rank does not start its step, the others are already in the step's collective.
Example: a worker reads from a network file system that no longer answers; the others wait in backward's all_reduce.
Fix: find the worker's stack; give the loader a `timeout`; copy the data to local disk; retry reads of remote shards.
Certain when: the laggard stands in the loader's queue and the others wait for it.
Possible when: only the log's last lines speak of data.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.facts.camps import camps_of_stall
from unhang.facts.machine_state import signs_of_rank, storage_signs
from unhang.facts.model import Activity, Facts, Stall, Straggler
from unhang.facts.worker_stacks import loader_workers
from unhang.findings import Cause, Certainty, Evidence, Phase, Remedy, Severity, Text, say
from unhang.rules import machine_lines, pace_lines
from unhang.rules.evidence_lines import call_of, group_label, hosts_of, operation_of, place_of, quote_stall
from unhang.rules.remedies import remedy
from unhang.rules.rule import Answer, finding

CAUSE = Cause.SLOW_DATA_LOADING


def check(facts: Facts) -> Iterator[Answer]:
    """Laggards that wait for a batch; a straggler that waits for one in every look."""
    straggler = facts.straggler
    if straggler is not None and straggler.activity is not None and pace_lines.is_loading(straggler.activity):
        yield _slow(facts, straggler, straggler.activity)
    for stall in facts.stalls:
        lag, _ = camps_of_stall(facts, stall)
        if lag.phase is not Phase.DATA or not lag.what.startswith(pace_lines.LOADING):
            continue
        if not all(facts.ranks[rank].outlived_the_others for rank in stall.laggards):
            continue
        workers = [w for rank in stall.laggards for w in loader_workers(facts, rank)]
        signs = storage_signs(facts, stall.laggards)
        yield finding(
            CAUSE,
            Certainty.CERTAIN,
            say("{ranks:who} {ranks:waits|wait} for its data loader; the others wait for it", ranks=stall.laggards),
            ranks=stall.laggards,
            nodes=hosts_of(facts, stall.laggards),
            group=group_label(facts, stall.group),
            phase=Phase.DATA,
            where=place_of(facts, stall.laggards[0]),
            waiter_where=stall.call.where if stall.call else None,
            calls=call_of(stall.direct_waiters, stall.call),
            because=(*_because(stall, workers), *machine_lines.because(signs)),
            evidence=(*quote_stall(facts, stall), *workers[:2], *machine_lines.evidence(signs)),
            remedies=(*machine_lines.remedies(signs), _look_at_worker(), _loader_timeout()),
        )


def _slow(facts: Facts, straggler: Straggler, activity: Activity) -> Answer:
    signs = (*signs_of_rank(facts, straggler.rank), *storage_signs(facts, (straggler.rank,)))
    return finding(
        CAUSE,
        Certainty.LIKELY,
        say("the job moves at the pace of rank {rank}'s data loader", rank=straggler.rank),
        severity=Severity.SLOWS,
        ranks=(straggler.rank,),
        nodes=hosts_of(facts, (straggler.rank,)),
        phase=Phase.DATA,
        where=activity.where,
        waiter_where=straggler.waiter.where if straggler.waiter else None,
        because=(
            *pace_lines.because(straggler),
            say("rank {rank} waited for its next batch meanwhile", rank=straggler.rank),
            *machine_lines.because(signs),
        ),
        evidence=(
            activity.evidence,
            *loader_workers(facts, straggler.rank)[:2],
            *machine_lines.evidence(signs),
        ),
        remedies=(*machine_lines.remedies(signs), _more_workers(), _look_at_worker()),
    )


def _more_workers() -> Remedy:
    return remedy("give-this-rank-s-loader-more-workers")


def _because(stall: Stall, workers: list[Evidence]) -> Iterator[Text]:
    yield say("{ranks:who} {ranks:stands|stand} in the loader's queue, before its next step", ranks=stall.laggards)
    for worker in workers[:2]:
        yield say("its worker stands in {place}", place=worker.text)
    if stall.call is not None:
        yield say(
            "{waiters:who} {waiters:waits|wait} in {operation}",
            waiters=stall.direct_waiters,
            operation=operation_of(stall.call),
        )


def _look_at_worker() -> Remedy:
    return remedy("see-what-the-loader-s-worker-waits")


def _loader_timeout() -> Remedy:
    return remedy("give-the-loader-a-limit-so-that")
