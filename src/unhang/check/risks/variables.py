"""Risks in environment variables: costly, misread, dead, old, colliding and set twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from unhang.check.devices.chosen_cards import has_no_p2p, is_p2p_redirected
from unhang.check.environment.environment import NeededSettings, Versions
from unhang.check.network.network import nodes_of
from unhang.check.risks.risk import Answer, RiskRows, asked_of_a_node
from unhang.findings import Cause, Grade, Remedy, Severity
from unhang.host.inspection_result import NodeInspection
from unhang.knowledge.job.environment_variables import (
    EnvironmentVariable,
    ParsedValue,
    ParseOutcome,
    VariableSupport,
    find_costly_setting,
    is_default,
    nccl2_effect,
    parse_value,
    similar_names,
    variable,
    variable_support,
)
from unhang.program.launch.job_environment import JobEnvironment, VariableSetting
from unhang.program.launch.launch import Launch
from unhang.program.program_source import ProgramSource
from unhang.program.settings.environment_reads import first_read
from unhang.program.settings.job_values import mentions

ROWS = RiskRows("variables")
FAMILIES = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "TORCH_DISTRIBUTED_", "TORCH_DIST_", "TORCHELASTIC_", "GLOO_")
"""Names that begin so are meant for the libraries we know, also when no row knows them."""
EXPORTED_BY_TORCHRUN = "TORCH_NCCL_ASYNC_ERROR_HANDLING"
"""torchrun sets it to 1 for its workers unless it is set (torch/distributed/elastic/agent, since 2.2)."""
_STALLS = (
    (("P2P", "SHM", "NVLS", "CUMEM", "MNNVL"), Cause.P2P_BROKEN),
    (("TIMEOUT", "HEARTBEAT", "WATCHDOG", "BLOCKING_WAIT"), Cause.TIMEOUT_TOO_SHORT),
    (("MASTER_", "RDZV", "WORLD_SIZE"), Cause.RENDEZVOUS),
    (("VISIBLE_DEVICES", "DEVICE_ORDER"), Cause.DEVICE_MAPPING),
    (("_IB_", "SOCKET", "NET", "IFNAME", "FI_", "UCX_", "OFI"), Cause.NETWORK_CONFIG),
    (("CUDA_LAUNCH_BLOCKING", "CONNECTIONS"), Cause.DEADLOCK_ORDER),
)
_SETS_RANK = tuple(
    f"environ{form}" for quote in "'\"" for form in (f"[{quote}rank{quote}] =", f".setdefault({quote}rank")
)
_KEEPS_SIZE = tuple(f"{quote}world_size{quote}{form}" for quote in "'\"" for form in (" not in os.environ", ", "))
_MEANT_ON = ("true", "yes", "on", "y", "t", "enable", "enabled")


@dataclass(frozen=True, slots=True)
class Judged:
    """A variable that is set and known: how it stands in the versions at hand, and what its value is read as."""

    setting: VariableSetting
    row: EnvironmentVariable
    standing: VariableSupport
    parsed: ParsedValue
    version: str | None
    """Of the program that reads it."""
    nccl2: str
    """What torch's rewritten NCCL backend does with it, where that is in force and it is known."""

    @property
    def name(self) -> str:
        """The variable's."""
        return self.setting.name

    @property
    def is_read(self) -> bool:
        """Whether a library reads it, under its old name too."""
        return self.standing in (VariableSupport.READ, VariableSupport.OLD_NAME, VariableSupport.DEPRECATED)

    @property
    def values(self) -> dict[str, str]:
        """What sentences say of it."""
        of_row = {"owner": self.row.owner, "since": self.row.since, "values": self.row.values}
        return {"name": self.name, "value": self.setting.value, "version": self.version or "", **of_row}


def judged(here: NodeInspection) -> Iterator[Judged]:
    """Every variable that is set and that a row knows, by name."""
    settings, versions = here.found(JobEnvironment) or JobEnvironment({}), here.found(Versions) or Versions({})
    rewritten = versions.nccl2(settings)
    for name, setting in sorted(settings.in_force.items()):
        row = variable(name)
        if row is None or row.name != name:
            continue
        version = versions.owner_of(row)
        standing = variable_support(row, version, nccl2=rewritten)
        effect = (nccl2_effect(name) or nccl2_effect(row.replacement)) if rewritten else ""
        yield Judged(setting, row, standing, parse_value(row, setting.value), version, effect)


def about(setting: VariableSetting, *others: VariableSetting) -> dict[str, Any]:
    """Parts of a finding: the stall that a wrong value of ``setting`` would show up as, and where all are set."""
    causes = (cause for words, cause in _STALLS if any(word in setting.name for word in words))
    return {"cause": next(causes, Cause.UNKNOWN), "evidence": tuple(one.evidence for one in (setting, *others))}


def variable_costly(here: NodeInspection) -> Iterator[Answer]:
    """A workaround copied from another machine: it slows every collective, or takes away what would tell of a hang."""
    needed = (here.found(NeededSettings) or NeededSettings({})).of
    for one in judged(here):
        row = find_costly_setting(one.name, one.parsed.value) if one.is_read else None
        if row is None:
            continue
        setting = f"{one.name}={one.parsed.value}"
        if row.cause == Cause.NETWORK_CONFIG and nodes_of(here) == 1:
            yield ROWS.fine("one-node", name=one.name)
        elif setting in needed:
            yield ROWS.fine("needed", setting=setting, how=needed[setting])
        elif one.name == "NCCL_P2P_DISABLE" and has_no_p2p(here):
            yield ROWS.fine("costly", name=one.name)
        elif one.name == "NCCL_P2P_DISABLE" and is_p2p_redirected(here):
            # It works around this very machine: taken out alone, it brings back what it was set against.
            yield ROWS.risk("needed", one.values, evidence=(one.setting.evidence,))
        else:
            yield ROWS.risk(
                "costly",
                {**one.values, "effect": row.effect, "unless": row.unless},
                cause=Cause(row.cause),
                grade=None if one.version is not None else Grade.BASE_RATE,
                because=(ROWS.words("nccl2", effect=one.nccl2),) if one.nccl2 else (),
                evidence=(one.setting.evidence,),
            )


def variable_value(here: NodeInspection) -> Iterator[Answer]:
    """NCCL reads ``true`` as 0, torch raises at what is no switch; an unknown word of an enumeration is ignored."""
    for one in judged(here):
        if not one.is_read or one.parsed.outcome is ParseOutcome.FINE:
            continue
        if one.parsed.outcome is ParseOutcome.RAISES:
            yield ROWS.risk("value-raises", one.values, **about(one.setting))
        elif one.parsed.outcome is ParseOutcome.IGNORED:
            yield ROWS.risk("value-ignored", one.values, **about(one.setting))
        else:
            severity = Severity.SLOWS if one.setting.value.strip().lower() in _MEANT_ON else Severity.NOTE
            values = {**one.values, "read": one.parsed.value}
            yield ROWS.risk("value-misread", values, severity=severity, **about(one.setting))


def variable_conflict(here: NodeInspection) -> Iterator[Answer]:
    """One setting makes another meaningless, or both ask for what cannot be; a row says ``NAME=value``."""
    settings = here.found(JobEnvironment) or JobEnvironment({})
    for one in judged(here):
        for conflict in one.row.conflicts if one.is_read and not is_default(one.row, one.setting.value) else ():
            other, sign, value = conflict.other.partition("=")
            if sign and _is_set(settings, other, value):
                values = {"name": one.name, "other": f"{other}={value}", "why": conflict.why}
                yield ROWS.risk("conflict", values, **about(one.setting, settings.in_force[other]))


def _is_set(settings: JobEnvironment, name: str, value: str) -> bool:
    setting, row = settings.in_force.get(name), variable(name)
    if setting is None or row is None:
        return False
    return parse_value(row, setting.value).value.upper() == parse_value(row, value).value.upper()


def variable_old_name(here: NodeInspection) -> Iterator[Answer]:
    """A library reads the old name only where the new one is not set; torchrun exports some of the new names itself."""
    settings = here.found(JobEnvironment) or JobEnvironment({})
    for one in judged(here):
        if one.standing not in (VariableSupport.OLD_NAME, VariableSupport.DEPRECATED):
            continue
        new = one.row.replacement.split("=")[0]
        other = settings.value(new)
        values = {**one.values, "new": new, "value": other}
        grade = None if one.version is not None else Grade.BASE_RATE
        remedies = (ROWS.remedy("use-new-name" if new else "drop-old-name", values),)
        parts = {"grade": grade, "remedies": remedies, **about(one.setting)}
        plain = "deprecated" if one.standing is VariableSupport.DEPRECATED else "old-name"
        alone = "old-name-torchrun" if new == EXPORTED_BY_TORCHRUN else plain
        yield ROWS.risk("old-name-loses" if other is not None else alone, values, **parts)


def variable_dead(here: NodeInspection) -> Iterator[Answer]:
    """A name nothing reads is ignored without a word; somebody believes the limit longer, or the recorder on.

    A program may read such a name itself (``int(os.environ["NCCL_TIMEOUT"])``): taken out, it would break.
    """
    program = here.found(ProgramSource) or ProgramSource(partly=True)
    because = (ROWS.words("program-not-looked-at"),) if program.partly else ()
    for one in judged(here):
        if one.standing not in (VariableSupport.NOBODY, VariableSupport.GONE, VariableSupport.NOT_YET):
            continue
        read = first_read(program, one.name)
        if read is not None:
            yield ROWS.fine("dead", name=one.name, place=f"{read.path}:{read.line}")
            continue
        remedies = (_drop_dead(one.name, one.row.replacement),)
        known = one.row.status == "unread" or one.version is not None
        grade = None if known else Grade.BASE_RATE
        parts = {"grade": grade, "because": because, "remedies": remedies, **about(one.setting)}
        if one.standing is VariableSupport.GONE:
            yield ROWS.risk("gone", one.values, **parts)
        else:
            yield ROWS.risk("not-yet" if one.standing is VariableSupport.NOT_YET else "nobody", one.values, **parts)
    for setting in _unknown_names(here):
        similar = next(iter(similar_names(setting.name)), "")
        values = {"name": setting.name, "similar": similar}
        remedies = (_drop_dead(setting.name, similar),)
        yield ROWS.risk("misspelt" if similar else "unknown", values, remedies=remedies, **about(setting))


def _unknown_names(here: NodeInspection) -> Iterator[VariableSetting]:
    """Variables of a family we know that no row knows."""
    settings = here.found(JobEnvironment) or JobEnvironment({})
    for name, setting in sorted(settings.in_force.items()):
        row = variable(name)
        if name.startswith(FAMILIES) and (row is None or row.name != name):
            yield setting


def _drop_dead(name: str, replacement: str) -> Remedy:
    values = {"name": name, "other": replacement}
    if not replacement:
        return ROWS.remedy("drop-dead", values)
    return ROWS.remedy("use-living-name" if variable(replacement) is not None else "use-living-way", values)


def variable_not_known(here: NodeInspection) -> Iterator[Answer]:
    """Torch 2.15 makes ``nccl2`` the default backend; of most variables of the old one nothing says they are read."""
    for one in judged(here):
        if one.standing is VariableSupport.NOT_KNOWN:
            because = ROWS.words("rewritten", version=one.version or "2.15")
            yield ROWS.could_not("not-known", because, "TORCH_DIST_USE_NCCL2=0", name=one.name)


def variable_shadowed(here: NodeInspection) -> Iterator[Answer]:
    """NCCL reads its files after the shell and never overwrites; a node without the shell's value takes the file's."""
    result = here.result(JobEnvironment)
    yield from ROWS.gap("shadowed", result)
    for winner, loser in result.found.shadowed if result.found is not None else ():
        values = {"name": winner.name, "value": winner.value, "place": winner.origin}
        values |= {"other": loser.origin, "second": loser.value}
        yield ROWS.risk("shadowed", values, **about(winner, loser))


def variable_world_size(here: NodeInspection) -> Iterator[Answer]:
    """A program that calls itself rank 0 where nothing else is said, and keeps WORLD_SIZE as it is set, waits for ranks
    that nobody starts. Without RANK others run alone, or end with an error that says so."""
    settings, launch = here.found(JobEnvironment) or JobEnvironment({}), here.found(Launch) or Launch()
    told = settings.value("WORLD_SIZE") or ""
    if launch.launcher != "python" or launch.outer or not told.isdecimal() or int(told) < 2 or launch.processes:
        return
    if settings.value("RANK") is None and mentions(here, _SETS_RANK) and mentions(here, _KEEPS_SIZE):
        yield ROWS.risk("world-size-alone", {"size": told, "others": int(told) - 1})


RISKS = asked_of_a_node(
    "environment",
    variable_world_size,
    variable_costly,
    variable_value,
    variable_conflict,
    variable_old_name,
    variable_dead,
    variable_not_known,
    variable_shadowed,
)
