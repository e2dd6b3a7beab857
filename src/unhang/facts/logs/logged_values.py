"""Values that logs print of a job: numbers of parameters, settings, versions."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

from unhang.evidence.items import LogEvent
from unhang.facts.collective_operations import minority
from unhang.facts.logs.log_statements import first_attempt, quote_event
from unhang.facts.model import Facts
from unhang.findings import Evidence

_COUNTS = re.compile(r"[Rr]ank (\d{1,7}) has (?:inconsistent )?(\d{1,12}) params")


def parameter_counts(facts: Facts) -> dict[int, int]:
    """Rank → number of parameters, for the ranks that the lines name."""
    texts = [event.text for event in first_attempt(facts.events_of("ddp.shape"))]
    texts += [t.message for t in facts.tracebacks if "DDP expects same model" in t.message]
    return {int(rank): int(count) for text in texts for rank, count in _COUNTS.findall(text)}


def outlier_models(counts: dict[int, int]) -> tuple[int, ...]:
    """Ranks whose number is not that of the majority; all of them when there is none; empty when all agree."""
    alike: dict[int, list[int]] = defaultdict(list)
    for rank, count in counts.items():
        alike[count].append(rank)
    return minority(alike) or (tuple(sorted(counts)) if len(alike) > 1 else ())


@dataclass(frozen=True, slots=True)
class DifferingParameter:
    """The first parameter of ``ranks`` that is not as that of rank 0. ``kind``: ``sizes`` or ``strides``."""

    ranks: tuple[int, ...]
    index: int
    kind: str
    shape: str
    is_rank_zero: bool
    """All ranks but rank 0 say the same: it is the one that differs."""


def differing_parameters(facts: Facts) -> DifferingParameter | None:
    """As each rank says it that compared itself with rank 0; of several, what the most ranks say."""
    said: dict[tuple[int, str, str], set[int]] = defaultdict(set)
    for event in first_attempt(facts.events_of("ddp.shape")):
        values = {"rank": event.rank, **event.values}
        if values["rank"] is not None and "index" in values:
            said[values["index"], values["kind"], values["shape"]].add(values["rank"])
    if not said:
        return None
    (index, kind, shape), ranks = max(said.items(), key=lambda one: (len(one[1]), -min(one[1])))
    everybody = len(ranks) > 1 and ranks == set(facts.ranks) - {0}
    return DifferingParameter(tuple(sorted(ranks)), index, kind, shape, everybody)


@dataclass(frozen=True, slots=True)
class LoggedSetting:
    """One variable as somebody printed it. ``by_library``: NCCL parsed it; else a shell or an environment dump."""

    name: str
    value: str
    by_library: bool
    evidence: Evidence


def logged_settings(facts: Facts) -> dict[str, LoggedSetting]:
    """By name; NCCL's own word wins over the shell's."""
    found: dict[str, LoggedSetting] = {}
    for event in facts.events_of("sh.set", "n.env"):
        setting = _setting(event)
        known = found.get(setting.name)
        if known is None or (setting.by_library and not known.by_library):
            found[setting.name] = setting
    return found


def _setting(event: LogEvent) -> LoggedSetting:
    name, value = str(event.values.get("name", "")), str(event.values.get("value", ""))
    return LoggedSetting(name, value, event.kind == "n.env", quote_event(event))


def overruled_settings(facts: Facts) -> tuple[tuple[LoggedSetting, LoggedSetting], ...]:
    """(shell's, NCCL's) where the two differ: the shell's did not reach the rank."""
    shell = {setting.name: setting for setting in map(_setting, facts.events_of("sh.set"))}
    return tuple(
        (shell[setting.name], setting)
        for setting in logged_settings(facts).values()
        if setting.by_library and setting.name in shell and shell[setting.name].value != setting.value
    )


_PACKAGE_OF = {"n.ver": "nccl", "v.torch": "torch", "v.driver": "nvidia-driver", "v.deepspeed": "deepspeed"}
_KINDS = (*_PACKAGE_OF, "v.pip", "v.hf", "ncclerr")


@dataclass(frozen=True, slots=True)
class LoggedVersion:
    """One version of one package, by the first line that says it."""

    package: str
    version: str
    evidence: Evidence


def logged_versions(facts: Facts) -> tuple[LoggedVersion, ...]:
    """Every package and version that the first attempt prints, in the order of the lines."""
    found: dict[tuple[str, str], LoggedVersion] = {}
    for event in first_attempt(facts.events_of(*_KINDS)):
        package, version = _package(event), _version(event)
        if package and version:
            found.setdefault((package, version), LoggedVersion(package, version, quote_event(event)))
    return tuple(found.values())


def _package(event: LogEvent) -> str:
    named = str(event.values.get("package", _PACKAGE_OF.get(event.kind, "nccl"))).lower()
    return "nccl" if named.startswith("nvidia-nccl") else named


def _version(event: LogEvent) -> str:
    return str(event.values.get("package_version") or event.values.get("nccl_version") or "")
