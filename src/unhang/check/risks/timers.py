"""Risks in the timeouts of a job and in the evidence they leave."""

from __future__ import annotations

from collections.abc import Iterator

from unhang.check.environment.environment import Timer, Timers, Versions
from unhang.check.risks.risk import Answer, RiskRows, asked_of_a_node
from unhang.findings import Remedy, Severity, Where
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge import numbers
from unhang.knowledge.job.environment_variables import nccl2_effect
from unhang.knowledge.thresholds import threshold, whole_threshold
from unhang.program.launch.job_environment import JobEnvironment, VariableSetting
from unhang.program.settings.job_values import value_in_force
from unhang.sentences import Text

ROWS = RiskRows("timers")
FAR_S = whole_threshold("timers.far_s")
DAY_S, YEAR_S = 86400.0, 86400.0 * 365.25
GROUP_DEFAULT_S = 600.0
SIZE_NAMES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
DEFAULT_ENTRIES = 2000
ON_BY_DEFAULT, KNOWS_BOTH_NAMES, DUMPS_BY_DEFAULT = (2, 11), (2, 8), (2, 7)
"""Versions of torch."""
_STEPS = ("max_steps", "total_steps", "max_train_steps", "num_train_steps", "max_iters", "train_iters", "total_iters")
LEAST_STEP_S = threshold("timers.least_step_s")
_BLOCKING = ("TORCH_NCCL_BLOCKING_WAIT", "NCCL_BLOCKING_WAIT")
_TRUE = ("y", "yes", "1", "t", "true")


def limit_far_away(here: NodeInspection) -> Iterator[Answer]:
    """A limit of days was set so that long work does not end the job; no real stall is ended either, nor dumped."""
    timers = here.found(Timers) or Timers()
    for timer in timers.of("collective", "first steps", "later steps"):
        if timer.seconds < FAR_S or timer.evidence is None:
            continue
        values = {"name": timer.name, "days": timer.seconds / DAY_S, "years": timer.seconds / YEAR_S}
        years = timer.seconds >= YEAR_S
        yield ROWS.risk("limit-of-years" if years else "limit-of-days", values, evidence=(timer.evidence,))


def limit_of_subgroups(here: NodeInspection) -> Iterator[Answer]:
    """``new_group``, a device mesh and a split get the default of their class, not the limit of the first group."""
    timers = here.found(Timers) or Timers()
    given = (timer for timer in timers.of("collective") if timer.evidence is not None and not timer.default)
    raised = next((timer for timer in given if timer.seconds > GROUP_DEFAULT_S), None)
    if raised is None or raised.evidence is None:
        return
    for call in timers.groups_without:
        yield ROWS.risk(
            "limit-of-subgroups",
            {"seconds": raised.seconds, "place": f"{call.source.path}:{call.source.line}"},
            where=Where(call.source.path, call.source.line, ""),
            evidence=(call, raised.evidence),
        )


def limit_not_in_force(here: NodeInspection) -> Iterator[Answer]:
    """Whoever makes the first group sets its limit: the Trainer before DeepSpeed, the program before the Trainer."""
    timers = here.found(Timers) or Timers()
    limits = timers.of("collective", "first steps")
    for timer in timers.ignored if limits else ():
        if timer.evidence is not None:
            yield _not_in_force(timer, limits[0])


def _not_in_force(timer: Timer, first: Timer) -> Answer:
    place = first.evidence.source if first.evidence is not None else None
    in_program = place is not None and place.line is not None
    values = {
        "name": timer.name,
        "other": first.name,
        "wanted": timer.seconds,
        "years": timer.seconds / YEAR_S,
        "seconds": first.seconds,
    }
    return ROWS.risk(
        "days-not-in-force" if timer.seconds < YEAR_S else "years-not-in-force",
        values,
        severity=Severity.SLOWS if in_program else Severity.NOTE,
        where=Where(place.path, place.line, "") if place is not None and in_program else None,
        because=(ROWS.words("trainer-takes-the-group"),) if in_program else (),
        evidence=tuple(evidence for evidence in (timer.evidence, first.evidence) if evidence is not None),
        remedies=(ROWS.remedy("limit-in-the-program" if timer.seconds >= DAY_S else "limit-instead", values),),
    )


def limits_in_order(here: NodeInspection) -> Iterator[Answer]:
    """A scheduler that ends the job before the watchdog fires leaves nothing that would say why it hung."""
    result = here.result(Timers)
    yield from ROWS.gap("limits-in-order", result)
    if result.found is None:
        return
    limits, ends = result.found.of("collective", "first steps", "later steps"), result.found.of("scheduler")
    if not limits:
        return
    first = limits[0]
    if not ends or ends[0].seconds >= first.seconds:
        row = "limits-by-default" if first.default or first.evidence is None else "limits-in-order"
        if result.because is None or row == "limits-in-order":  # else the program may set another
            yield ROWS.fine(row, name=first.name, seconds=first.seconds)
        return
    yield ROWS.risk(
        "scheduler-comes-first",
        {"name": ends[0].name, "left": ends[0].seconds, "limit": first.name, "seconds": first.seconds},
        evidence=tuple(evidence for evidence in (ends[0].evidence, first.evidence) if evidence is not None),
    )


def time_for_the_steps(here: NodeInspection) -> Iterator[Answer]:
    """A scheduler that ends the job long before its steps are done, however fast they are."""
    ends = (here.found(Timers) or Timers()).of("scheduler")
    told = next((one for name in _STEPS if (one := value_in_force(here, name)) is not None and one.whole), None)
    if not ends or told is None or (told.whole or 0) <= 0:
        return
    each = ends[0].seconds / (told.whole or 1)
    values = {"name": ends[0].name, "limit": ends[0].seconds, "steps": told.whole, "each": 1000 * each}
    if each < LEAST_STEP_S:
        evidence = tuple(one for one in (ends[0].evidence, told.evidence) if one is not None)
        yield ROWS.risk("too-short-for-the-steps", values, evidence=evidence)


def recorder(here: NodeInspection) -> Iterator[Answer]:
    """The recorder's size, and whether a watchdog would write it down: without both nobody can tell who called what.
    Releases before 2.2 have none."""
    settings, versions = here.found(JobEnvironment), here.found(Versions)
    if settings is None or versions is None or not versions.at_least("torch", (2, 2)):
        return
    set_to = next((settings.in_force[name] for name in SIZE_NAMES if name in settings.in_force), None)
    blocking = next((name for name in _BLOCKING if (settings.value(name) or "").lower() in _TRUE), None)
    entries, torch = _entries(settings, versions), versions.of["torch"]
    evidence = () if set_to is None else (set_to.evidence,)
    if blocking is not None and entries:
        name = set_to.name if set_to is not None else SIZE_NAMES[1]
        yield ROWS.risk(
            "recorder-without-watchdog",
            {"name": name, "other": blocking},
            because=(*_what_it_does(versions, set_to), *_nccl2(name, settings, versions)),
            evidence=evidence,
            remedies=(_without(blocking, set_to, versions),),
        )
    elif not entries:
        remedy = ROWS.remedy("recorder-on", set=_wanted(versions))
        yield ROWS.risk("recorder-off", {"torch": torch}, evidence=evidence, remedies=(remedy,))
    elif set_to is not None and versions.at_least("torch", ON_BY_DEFAULT) and entries < DEFAULT_ENTRIES:
        yield ROWS.risk(
            "recorder-smaller",
            {"name": set_to.name, "value": set_to.value, "torch": torch},
            because=_nccl2(set_to.name, settings, versions),
            evidence=evidence,
            remedies=(ROWS.remedy("take-out", {"name": set_to.name}, unset=(set_to.name,)),),
        )
    else:
        yield ROWS.fine("recorder", torch=torch, entries=entries)


def _entries(settings: JobEnvironment, versions: Versions) -> int:
    default = DEFAULT_ENTRIES if versions.at_least("torch", ON_BY_DEFAULT) else 0
    names = SIZE_NAMES if versions.at_least("torch", KNOWS_BOTH_NAMES) else SIZE_NAMES[1:]
    value = next((settings.value(name) for name in names if settings.value(name)), None)
    entries = numbers.integer(value or "")
    return entries if entries is not None and entries >= 0 else default


def _what_it_does(versions: Versions, set_to: VariableSetting | None) -> tuple[Text, ...]:
    if set_to is None:
        return ()
    on = versions.at_least("torch", ON_BY_DEFAULT)
    return (ROWS.words("needs-no-size" if on else "needs-a-size", torch=versions.of["torch"]),)


def _nccl2(name: str, settings: JobEnvironment, versions: Versions) -> tuple[Text, ...]:
    effect = nccl2_effect(name) if versions.nccl2(settings) else ""
    return (ROWS.words("nccl2", effect=effect),) if effect else ()


def _without(blocking: str, set_to: VariableSetting | None, versions: Versions) -> Remedy:
    """Take out what is in the way, and leave the recorder on: a size is needed where none is the default."""
    if versions.at_least("torch", ON_BY_DEFAULT):
        needless = () if set_to is None else (set_to.name,)
        return ROWS.remedy("take-out", {"name": blocking}, unset=(blocking, *needless))
    return ROWS.remedy("take-out", {"name": blocking}, unset=(blocking,), set=_wanted(versions))


def _wanted(versions: Versions) -> dict[str, str]:
    """What turns the recorder on in a version where it is off by default."""
    both = SIZE_NAMES if versions.at_least("torch", KNOWS_BOTH_NAMES) else SIZE_NAMES[1:]
    wanted = {name: str(DEFAULT_ENTRIES) for name in both}
    dumps = versions.at_least("torch", DUMPS_BY_DEFAULT)
    return wanted if dumps else {**wanted, "TORCH_NCCL_DUMP_ON_TIMEOUT": "1"}


RISKS = (
    *asked_of_a_node("environment", recorder),
    *asked_of_a_node(
        "timers", limit_far_away, limit_of_subgroups, limit_not_in_force, limits_in_order, time_for_the_steps
    ),
)
