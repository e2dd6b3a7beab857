"""What the detectors of a rank that slows a moving job share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TypeGuard

from unhang.causes.detector import Signal, make_signal
from unhang.causes.evidence_lines import short_place
from unhang.causes.wording import machine_reasons
from unhang.facts.laggard.own_work import LOADING_ACTIVITIES
from unhang.facts.machine.machine_state import MachineSign
from unhang.facts.model import Activity, Facts, Straggler
from unhang.facts.pace.step_slowdown import TRAINER_LINES, StepSlowdown
from unhang.facts.stacks.child_processes import loader_workers
from unhang.findings import Grade, Phase, Remedy, Severity
from unhang.knowledge.thresholds import whole_threshold
from unhang.knowledge.words import Sentences
from unhang.sentences import Text

tell = Sentences("causes/shared.toml")
MANY_LOOKS = whole_threshold("pace_reasons.many_looks")
_OWN_PHASES = (Phase.DATA, Phase.SAVE, Phase.LOG, Phase.EVAL)
_COMPUTES = ("forward", "backward", "optimizer")
_OWN_WORK = {"file-io", "subprocess", "http", "json", "tokenize", "file-lock", "plot", "download"}


def is_loading(activity: Activity | None) -> bool:
    """It waits for its next batch."""
    return activity is not None and activity.what.startswith(LOADING_ACTIVITIES)


def is_own_work(activity: Activity | None) -> bool:
    """Work besides the training itself: saving, logging, evaluating, files, another program."""
    if activity is None or is_loading(activity):
        return False
    return activity.phase in _OWN_PHASES or activity.what in _OWN_WORK


def computes(activity: Activity | None) -> TypeGuard[Activity]:
    """It is in a part of the step that all ranks have."""
    return activity is not None and activity.what in _COMPUTES


def _phase(activity: Activity) -> Phase:
    return Phase(activity.what) if computes(activity) else activity.phase


def busy_at(straggler: Straggler) -> str:
    """``train.py:25 (add)`` where the whole function is its own, ``train.py:25`` where one line is."""
    place = short_place(straggler.activity.where if straggler.activity is not None else None)
    return f"{place} ({straggler.own.function})" if straggler.own is not None and straggler.own.function else place


def slow_rank_signal(
    facts: Facts, straggler: Straggler, summary: Text, signs: Sequence[MachineSign], *remedies: Remedy
) -> Signal:
    """That ``straggler`` sets the pace: whole from many samples, when it comes last to nearly all collectives, or when
    its machine shows what holds it up."""
    activity = straggler.activity
    many = straggler.positions or straggler.pace_samples or straggler.samples >= MANY_LOOKS
    workers = loader_workers(facts, straggler.rank)[:2] if is_loading(activity) else []
    # Who computes more than the others also waits more often for a processor: what it alone does comes first.
    reasons = [list(machine_reasons.because(signs)), list(because(straggler))]
    changes = [list(machine_reasons.remedies(signs)), list(remedies)]
    return make_signal(
        Grade.STACK,
        summary,
        whole=bool(many or signs or is_loading(activity)),
        severity=Severity.SLOWS,
        ranks=(straggler.rank,),
        phase=_phase(activity) if activity is not None else None,
        where=activity.where if activity is not None else None,
        waiter_where=straggler.waiter.where if straggler.waiter else None,
        because=tuple(chain.from_iterable(reasons if straggler.own is None else reversed(reasons))),
        evidence=(*((activity.evidence,) if activity is not None else ()), *workers, *machine_reasons.evidence(signs)),
        remedies=tuple(chain.from_iterable(changes if straggler.own is None else reversed(changes))),
    )


def slowdown_text(growing: StepSlowdown) -> Text:
    """How much longer steps take than before, and since when."""
    return tell(
        "trainer-slower" if growing.unit == TRAINER_LINES else "steps-slower",
        times=growing.times,
        step=growing.since_step,
        now=growing.now_s,
        before=growing.before_s,
    )


def because(straggler: Straggler) -> Iterator[Text]:
    """What it costs, since when, and what was seen."""
    if straggler.cost:
        yield tell("costs", percent=round(100 * straggler.cost))
    looks = straggler.pace_samples or straggler.samples
    if straggler.own is not None:
        own = round(100 * straggler.own.share)
        yield tell("only-it-was-at", rank=straggler.rank, place=busy_at(straggler), own=own, looks=looks)
    elif computes(straggler.activity):
        yield tell("computes-in", phase=straggler.activity.what)
    change = straggler.change
    if change is not None:
        yield tell("step-since", step=change.step, since=f"{change.since_s:.2g}", before=f"{change.before_s:.2g}")
    if looks and (straggler.waits or straggler.others < 1):
        yield tell(
            "waited-less",
            rank=straggler.rank,
            own=round(100 * straggler.waits),
            looks=looks,
            others=min(99, round(100 * straggler.others)),
        )
    if straggler.positions:
        yield tell("came-last", rank=straggler.rank, positions=straggler.positions)
    elif looks and not straggler.waits and straggler.others == 1:
        yield tell("busy-each-look", looks=looks, rank=straggler.rank, waiters=straggler.waiters)
    if straggler.used is not None:
        own, others = (round(100 * share) for share in straggler.used[1:])
        yield tell("used-processor", rank=straggler.rank, own=own, others=others)
    if is_loading(straggler.activity):
        yield tell("waited-for-batch", rank=straggler.rank)
