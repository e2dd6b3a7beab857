"""Versions of packages as logs print them, each once: NCCL's own line, pip, collect_env, nvidia-smi."""

from __future__ import annotations

from dataclasses import dataclass

from unhang.evidence.items import LogEvent
from unhang.facts.logs.log_statements import first_attempt, quote_event
from unhang.facts.model import Facts
from unhang.findings import Evidence

_PACKAGE_OF = {"n.ver": "nccl", "v.torch": "torch", "v.driver": "nvidia-driver", "v.deepspeed": "deepspeed"}
_KINDS = (*_PACKAGE_OF, "v.pip", "v.hf", "ncclerr")


@dataclass(frozen=True, slots=True)
class LoggedVersion:
    """One version of one package; ``rank`` and ``host`` of the first line that says it, where known."""

    package: str
    version: str
    rank: int | None
    host: str | None
    evidence: Evidence


def logged_versions(facts: Facts) -> tuple[LoggedVersion, ...]:
    """Every package and version that the first attempt prints, in the order of the lines."""
    found: dict[tuple[str, str], LoggedVersion] = {}
    for event in first_attempt(facts.events_of(*_KINDS)):
        package, version = _package(event), _version(event)
        if package and version:
            found.setdefault(
                (package, version), LoggedVersion(package, version, event.rank, event.host, quote_event(event))
            )
    return tuple(found.values())


def _package(event: LogEvent) -> str:
    named = str(event.values.get("package", _PACKAGE_OF.get(event.kind, "nccl"))).lower()
    return "nccl" if named.startswith("nvidia-nccl") else named


def _version(event: LogEvent) -> str:
    return str(event.values.get("package_version") or event.values.get("nccl_version") or "")
