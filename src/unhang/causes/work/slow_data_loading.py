"""slow-data-loading: a data-loader worker or the storage stalls, and one rank waits for its next batch.

What happens: one rank's training thread waits in the loader's queue; its worker is blocked in a read, or is gone.
Why it hangs: this rank does not start its step, and the other ranks are already in the step's collective.
Example: a worker reads from a network file system that no longer answers; the other ranks wait in backward's
all_reduce. In the log, seven ranks end with `step: 2690`, rank 3 with `HTTP Request: GET
…c4-train.00002-of-01024.json.gz`.
Fix: find the worker's stack; give the loader a `timeout`; copy the data to local disk; retry reads of remote shards.
Certain when: two samples show the laggard in the loader's queue while the other ranks wait for it. A loop over batches
of its own (rank 0 alone validates) is single-rank-work.
Likely when: the laggard was never seen to leave a line of its data set; one sample shows it in the queue, or it moves;
a loader's or a file server's own limit passed; a few of many stacks without ranks wait for data and all others are in
collectives; or the step lines say that most of the time goes into waiting for data.
Possible when: only the last lines of the log mention data.
"""

from __future__ import annotations

from collections.abc import Iterator

from unhang.causes.detector import DetectorResult, make_signal
from unhang.causes.evidence_lines import short_place
from unhang.causes.wording import external_wait_reasons, machine_reasons, pace_reasons
from unhang.causes.wording.signals import log_signal, stall_signal, waiters_line
from unhang.facts.laggard.laggards import AwaitsBatch, laggards_doing
from unhang.facts.laggard.own_work import MADE_HERE
from unhang.facts.logs.last_log_lines import last_line_phases
from unhang.facts.logs.log_statements import first_attempt
from unhang.facts.logs.waits_in_logs import logged_waits
from unhang.facts.machine.machine_state import signs_of_rank, storage_signs
from unhang.facts.model import Facts, RankFacts, Stall, Straggler
from unhang.facts.pace.data_wait_share import data_wait_share
from unhang.facts.stacks.child_processes import loader_workers, worker_line
from unhang.facts.stacks.rank_cohorts import RankCohort
from unhang.facts.stacks.unattributed_stacks import unattributed_cohorts
from unhang.findings import Cause, Grade, Phase, Remedy, Severity
from unhang.knowledge.remedies import remedy
from unhang.knowledge.thresholds import whole_threshold
from unhang.knowledge.words import Sentences

CAUSE = Cause.SLOW_DATA_LOADING
tell = Sentences("causes/slow-data-loading.toml")
FEW = whole_threshold("slow_data_loading.few")
"""Of stacks without ranks, at most one in so many waits for data."""
_LOADER, _MAX_WORKERS = "torch/utils/data/", 4


def detect(facts: Facts) -> Iterator[DetectorResult]:
    """Laggards or a straggler that wait for a batch; the same from stacks without ranks, and from lines."""
    yield from _slows(facts)
    yield from (_stalls(facts, at.stall, awaits) for at, awaits in laggards_doing(facts, AwaitsBatch))
    yield from _unattributed(facts)
    yield from _own_limit(facts)
    yield from _waits_in_steps(facts)
    yield from _last_line_phases(facts)


def _slows(facts: Facts) -> Iterator[DetectorResult]:
    straggler = facts.straggler
    if straggler is None or not pace_reasons.is_loading(straggler.activity):
        return
    yield pace_reasons.slow_rank_signal(
        facts,
        straggler,
        tell("pace", rank=straggler.rank),
        (*signs_of_rank(facts, straggler.rank), *storage_signs(facts, (straggler.rank,))),
        *_faster_batches(facts.ranks[straggler.rank], straggler),
    )


def _faster_batches(known: RankFacts, straggler: Straggler) -> tuple[Remedy, ...]:
    """By who makes them, as far as it was seen."""
    if straggler.activity is not None and straggler.activity.what in MADE_HERE:
        return (remedy("make-batches-in-workers", rank=straggler.rank, place=pace_reasons.busy_at(straggler)),)
    at = next((where for stack in known.worker_stacks if (where := worker_line(stack)) is not None), None)
    if at is None:
        return (remedy("speed-up-data-loader"), _inspect_workers(known))
    return (remedy("speed-up-loader-worker", rank=straggler.rank, place=f"{short_place(at)} ({at.function})"),)


def _stalls(facts: Facts, stall: Stall, awaits: AwaitsBatch) -> DetectorResult:
    workers = [worker for rank in stall.laggards for worker in loader_workers(facts, rank)]
    signs, cohort = storage_signs(facts, stall.laggards), awaits.cohort
    function = cohort.where.function if cohort.where is not None else "?"
    way = _way(cohort)
    return stall_signal(
        Grade.SOURCE,
        tell(
            "reads-itself" if way == "itself" else "waits-for-loader" if way == "loader" else "waits-for-next",
            ranks=stall.laggards,
            function=function,
        ),
        facts,
        stall,
        whole=_is_whole(facts, awaits),
        phase=Phase.DATA,
        because=(
            tell(
                "in-data-set" if way == "itself" else "in-loader-queue" if way == "loader" else "in-iterator",
                ranks=stall.laggards,
            ),
            *(tell("worker-stands", place=worker.text) for worker in workers[:2]),
            *waiters_line(stall),
            *(external_wait_reasons.because(facts, cohort) if way == "iterator" else ()),
            *machine_reasons.because(signs),
        ),
        more_evidence=(*workers[:2], *machine_reasons.evidence(signs)),
        remedies=(*machine_reasons.remedies(signs), *_remedies(facts, awaits)),
    )


def _is_whole(facts: Facts, awaits: AwaitsBatch) -> bool:
    """One sample is one moment; what fills an iterator of the program's own, or does not return, may have any fault."""
    stays = awaits.inside is not None and awaits.inside.stays
    if stays or _way(awaits.cohort) == "iterator":
        return False
    return all(facts.ranks[rank].moving is False for rank in awaits.cohort.ranks)


def _way(cohort: RankCohort) -> str:
    """Who makes the batch: the rank ``itself``, torch's ``loader``, or an ``iterator`` of the program's own."""
    if cohort.what in MADE_HERE:
        return "itself"
    return "loader" if any(_LOADER in frame.file for frame in cohort.frames) else "iterator"


def _remedies(facts: Facts, awaits: AwaitsBatch) -> Iterator[Remedy]:
    cohort, inside = awaits.cohort, awaits.inside
    if inside is not None and inside.stays:
        yield external_wait_reasons.find_why_line_stays(cohort.frames, inside.where)
    elif _way(cohort) == "iterator" and cohort.where is not None:
        yield from external_wait_reasons.remedies(facts, cohort)
        yield remedy("add-call-timeout", place=short_place(cohort.where))
    else:
        yield _inspect_workers(facts.ranks[cohort.ranks[0]])
        yield remedy("set-loader-timeout")


def _inspect_workers(known: RankFacts) -> Remedy:
    pids = [one.pid for one in known.worker_stacks if one.pid is not None]
    told = "; ".join(f"py-spy dump --pid {pid}" for pid in pids[:_MAX_WORKERS])
    children = f"pgrep -P {known.pid} | xargs -n 1 py-spy dump --pid" if known.pid is not None else "unhang attach"
    return remedy("inspect-loader-worker", commands=told or children)


def _unattributed(facts: Facts) -> Iterator[DetectorResult]:
    """A minority of the stacks without ranks in the loader's queue, everybody else in communication."""
    cohorts = unattributed_cohorts(facts)
    loading = [cohort for cohort in cohorts if cohort.what.startswith("dataloader")]
    others = [cohort for cohort in cohorts if cohort not in loading]
    if not loading or not others or any(c.activity.phase is not Phase.COMMUNICATION for c in others):
        return
    few, many = sum(c.count for c in loading), sum(c.count for c in others)
    if few > many:
        return
    yield make_signal(
        Grade.STACK,
        tell("few-wait", few=few, all=few + many),
        whole=few * FEW <= few + many,  # else the stacks may be of different moments
        phase=Phase.DATA,
        where=loading[0].activity.where,
        waiter_where=others[0].activity.where,
        because=(tell("not-begun"),),
        evidence=(loading[0].activity.evidence, others[0].activity.evidence),
        remedies=(remedy("inspect-unattributed-loader-workers"),),
    )


def _own_limit(facts: Facts) -> Iterator[DetectorResult]:
    limits = first_attempt(facts.events_of("dl.timeout", "k.nfs"))
    if limits:
        yield log_signal(
            Grade.STATED,
            tell("no-data"),
            limits,
            "localize-data-with-timeouts",
            whole=False,  # what held the worker up is not known
            phase=Phase.DATA,
            because=(tell("line-says-so"),),
        )


def _waits_in_steps(facts: Facts) -> Iterator[DetectorResult]:
    """The lines of the steps tell how long each waited for its data."""
    pace = data_wait_share(facts)
    if pace is None:
        return
    because = [tell("steps-waited", waits=pace.waits, steps=pace.steps, longest=pace.longest_s, compute=pace.compute_s)]
    if pace.every is not None and pace.every > 1:
        because.append(tell("such-steps", every=pace.every))
    yield make_signal(
        Grade.STATED,
        tell("percent", percent=round(100 * pace.share)),
        whole=False,  # which rank or which part of the storage is slow is not known
        severity=Severity.SLOWS,
        ranks=() if pace.rank is None else (pace.rank,),
        phase=Phase.DATA,
        because=tuple(because),
        evidence=(pace.evidence,),
        remedies=(remedy("speed-up-data-loader"), remedy("localize-data-with-timeouts")),
    )


def _was_ended(facts: Facts) -> bool:
    """Somebody, a launcher or a limit ended the job: lines of a start alone do not show that it stood."""
    return bool(logged_waits(facts) or facts.exits or facts.events_of("te.", "slurm.", "k8s."))


def _last_line_phases(facts: Facts) -> Iterator[DetectorResult]:
    """The last lines of ranks of which nothing but lines is known speak of data: of a minority after steps, or of all
    before any."""
    silent = {r for r, known in facts.ranks.items() if known.last_line and not (known.stack or known.recording)}
    stepping = {r for r in silent if facts.ranks[r].progress}
    logged = logged_waits(facts)
    waited = logged.rank_set if logged is not None else ()  # they had their batch and waited for others
    words = [w for w in last_line_phases(facts) if w.phase is Phase.DATA and w.rank in silent and w.rank not in waited]
    ranks = tuple(sorted({w.rank for w in words if w.rank is not None}))
    few = [rank for rank in ranks if rank in stepping]
    if few and len(few) * 2 < len(stepping):
        ranks = tuple(few)
        summary = tell("fetching", ranks=ranks)
        why = tell("last-words", ranks=ranks)
    elif len(ranks) > 1 and len(ranks) == len(facts.ranks) and not stepping and _was_ended(facts):
        summary = tell("all-loading")
        why = tell("no-step")
    else:
        return
    yield make_signal(
        Grade.ORDER,
        summary,
        whole=False,  # its log simply ends a moment later than the others', or another line was never flushed
        ranks=ranks if few else (),
        phase=Phase.DATA,
        because=(why,),
        evidence=tuple(w.evidence for w in words if w.rank in ranks)[:3],
        remedies=(remedy("localize-data-with-timeouts"),),
    )
