"""What advice is worth on this machine and for this job: what `unhang check` says once its variables are set."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from unhang.check.all_inspections import ALL_INSPECTIONS, inspect_node
from unhang.check.environment.environment import Versions
from unhang.check.judge import judge
from unhang.check.risks.risk import risk_file
from unhang.check.risks.variables import FAMILIES
from unhang.findings import Cause, Severity, Verdict
from unhang.host.machine import Machine
from unhang.knowledge.tables import read_typed
from unhang.program.launch.planned_job import PlannedJob
from unhang.report.explain.article_advice import Advice, Worth
from unhang.sentences import Text, say

_OF_MACHINE = ("environment", "timers", "versions", "driver", "devices", "topology", "limits", "network")
"""What is asked where no command is given."""
_SET_TO_JUDGE = (*FAMILIES, "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
_PLAIN = re.compile(r"[\w.,:^=-]+")
_ORDER: tuple[Worth, ...] = ("harmful", "no-effect", "costs", "right", "already", "depends")
_Said = tuple[Worth, tuple[Text, ...]]


def judged_here(advice: Sequence[Advice], machine: Machine, command: Sequence[str]) -> tuple[Advice, ...]:
    """``advice`` as it is worth on ``machine`` and, where one is given, for the job that ``command`` would start."""
    before = dict(machine.environment)
    machine.environment = before | {one.key: one.value for one in advice if one.value and _may_be_set(one)}
    checks = [one for one in ALL_INSPECTIONS if (one.default if command else one.name in _OF_MACHINE)]
    here, gaps = inspect_node(machine, PlannedJob(tuple(command)), checks)
    verdict = judge([here], [one.name for one in checks], gaps)
    installed = (here.found(Versions) or Versions({})).of
    there = {f"{name} {version.partition('+')[0]}" for name, version in installed.items()}
    there |= {f"{name}={value}" for name, value in before.items()}
    return tuple(_judged(one, verdict, there, planned=bool(command)) for one in advice)


def _may_be_set(one: Advice) -> bool:
    """What is looked at is asked by commands with these variables: none that tells a program what to load or run."""
    return not one.against and one.key.startswith(_SET_TO_JUDGE) and _PLAIN.fullmatch(one.value or "") is not None


def _judged(one: Advice, verdict: Verdict, there: set[str], *, planned: bool) -> Advice:
    if one.key in there or f"{one.key}={one.value}" in there:
        return replace(one, worth="already", because=(), settle="")
    if one.against:
        return one
    answers = [*(_of_variable(one, verdict, planned=planned) if one.value else ()), *_of_row(one, verdict)]
    if not answers:
        return one
    worth, because = min(answers, key=lambda said: _ORDER.index(said[0]))
    return replace(one, worth=worth, because=because, settle=one.settle if worth == "depends" else "")


def _of_variable(one: Advice, verdict: Verdict, *, planned: bool) -> Iterator[_Said]:
    for finding in verdict.findings:
        if one.key in (finding.subject, finding.summary.values.get("name")):
            worth = _worths().get(
                finding.summary.template, "harmful" if finding.severity is Severity.STOPS else "depends"
            )
            if worth == "costs" and finding.cause is Cause.NETWORK_CONFIG and not planned:
                worth = "depends"  # it changes nothing on one node, and nothing says how many there are
            yield worth, (finding.summary, *(remedy.title for remedy in finding.remedies[:1]))
    for passed in verdict.checked:
        if passed.what.values.get("name") == one.key and passed.what.template in _worths():
            yield _worths()[passed.what.template], (passed.what,)


def _of_row(one: Advice, verdict: Verdict) -> Iterator[_Said]:
    """A job that `unhang check` finds to need it, or to have it already."""
    needs, has = (set(map(_template, rows)) for rows in ((one.row.found, one.row.fine) if one.row else ((), ())))
    for finding in verdict.findings:
        if finding.summary.template in needs and finding.severity is not Severity.NOTE:
            yield "right", (say("unhang check finds what it is for: {finding}", finding=finding.summary),)
    yield from (("already", (passed.what,)) for passed in verdict.checked if passed.what.template in has)


def judged_for(advice: Sequence[Advice], named: Sequence[Collection[Cause]]) -> tuple[Advice, ...]:
    """``advice`` with what depends on the cause decided by what its article says of causes, each the causes that fit
    it: it is for the only one, or for none of them."""
    return tuple(_judged_for(one, named) for one in advice)


def _judged_for(one: Advice, named: Sequence[Collection[Cause]]) -> Advice:
    remedied = set(one.row.causes) if one.row is not None else set()
    if one.worth != "depends" or one.against or not named or not remedied:
        return one
    fits = [cause for causes in named for cause in causes if cause in remedied]
    if not fits:
        why = say("It does nothing for the cause that the article names: {cause}.", cause=next(iter(named[0])).value)
        return replace(one, worth="no-effect", because=(why, *one.because), settle="")
    if len(named) > 1:
        return one
    why = say("It is for the cause that the article names: {cause}.", cause=fits[0].value)
    return replace(one, worth="right", because=(why, *one.because))


def causes_remedied(one: Advice) -> frozenset[Cause]:
    """What ``one`` is a remedy for; empty where its row says nothing of it."""
    named = [name.split(".") for name in one.row.found] if one.row is not None else []
    risks = {risk_file(family).risk[name].cause for family, _, name in named}
    return frozenset(risks | set(one.row.causes if one.row is not None else ()))


@cache
def _worths() -> Mapping[str, Worth]:
    """What a setting is worth of which `unhang check` says this (``worths.toml``)."""
    rows = read_typed("worths.toml", dict[Worth, tuple[str, ...]])
    return {_template(name): worth for worth, names in rows.items() for name in names}


def _template(name: str) -> str:
    """What the row ``family.table.id`` of ``knowledge/risks`` says. Raises ``KeyError`` where there is none."""
    family, table, row = name.split(".")
    held = risk_file(family)
    said = held.risk[row].summary if table == "risk" else {**held.detail, **held.fine}[row]
    return said if isinstance(said, str) else said.en
