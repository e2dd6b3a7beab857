"""A situation as text, so that one rank can compare what all of them saw. JSON only: nothing read back is executed.

Every dataclass of this room and of :mod:`unhang.findings` is written with its name and comes back as what it was.
"""

from __future__ import annotations

import enum
import importlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from unhang import findings, sentences
from unhang.check.sameness.field_types import has_valid_types
from unhang.errors import EvidenceError
from unhang.evidence import items
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.program.launch.job_environment import JobEnvironment, comparable_variables
from unhang.program.program_source import ProgramSource
from unhang.program.rank_dependence import rank_branches

NOT_SENT = (ProgramSource,)
"""Sources are compared by their hashes and never travel."""
MAX_CHARACTERS = 16 << 20
SENT_MODULES = (
    *(f"unhang.check.devices.{name}" for name in ("chosen_cards", "devices")),
    *(f"unhang.check.network.{name}" for name in ("firewall", "interface_choice", "network")),
    *(f"unhang.check.environment.{name}" for name in ("machine_limits", "timers", "versions")),
    *(
        f"unhang.check.probe_results.{name}"
        for name in ("probe_results", "answer_line", "expected_speed", "slow_pairs")
    ),
    *("unhang.check.sameness.sameness", "unhang.check.storage.storage", "unhang.host.inspection_result"),
    *(f"unhang.program.launch.{name}" for name in ("job_environment", "launch")),
    *("unhang.program.program_source", "unhang.program.settings.job_values"),
)
"""Modules whose dataclasses travel."""


def encode_inspection(here: NodeInspection) -> str:
    """``here`` as JSON, without sources and without variables of the shell that are none of ours."""
    results = [
        [_name(kind), _encode(_shareable(result))] for kind, result in here.results.items() if kind not in NOT_SENT
    ]
    return json.dumps({"node": here.node, "rank": here.rank, "looks": results})


def decode_inspection(text: str) -> NodeInspection:
    """What :func:`encode_inspection` wrote.

    Raises:
        EvidenceError: the text is no situation, or one of another version of unhang.
    """
    if len(text) > MAX_CHARACTERS:
        raise EvidenceError(f"the answer of a rank is larger than {MAX_CHARACTERS >> 20} MB")
    try:
        said = json.loads(text)
        results = {_kinds()[name]: _decode(result) for name, result in said["looks"]}
        if not all(
            isinstance(result, InspectionResult) and isinstance(result.found, kind | None)
            for kind, result in results.items()
        ):
            raise ValueError("a look is none, or one at something else")
        rank = said["rank"]
        return NodeInspection(str(said["node"]), int(rank) if rank is not None else None, results)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise EvidenceError(f"the answer of a rank cannot be read ({type(error).__name__}: {error})") from error


def _shareable(result: InspectionResult[Any]) -> InspectionResult[Any]:
    if not isinstance(result.found, JobEnvironment):
        return result
    names = comparable_variables({name: setting.value for name, setting in result.found.in_force.items()})
    kept = {name: setting for name, setting in result.found.in_force.items() if name in names}
    shadowed = tuple(pair for pair in result.found.shadowed if pair[0].name in names)
    return InspectionResult(JobEnvironment(kept, shadowed), result.because, result.how)


@cache
def _kinds() -> dict[str, type]:
    """Every dataclass and enum that may travel, by name."""
    return {
        _name(kind): kind
        for module in (findings, sentences, items, rank_branches, *map(importlib.import_module, SENT_MODULES))
        for kind in vars(module).values()
        if isinstance(kind, type)
        and kind.__module__ == module.__name__
        and (is_dataclass(kind) or issubclass(kind, enum.Enum))
    }


def _name(kind: type) -> str:
    return f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"


def _encode(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return {"enum": _name(type(value)), "of": value.value}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_dataclass(value):
        return {"kind": _name(type(value)), "of": {f.name: _encode(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, Mapping):
        return {"map": [[_encode(key), _encode(held)] for key, held in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_encode(held) for held in value]}
    if isinstance(value, set | frozenset):
        return {"set": sorted((_encode(held) for held in value), key=repr)}
    return [_encode(held) for held in value] if isinstance(value, list) else str(value)  # a date in somebody's YAML


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(held) for held in value]
    if not isinstance(value, dict):
        return value
    if "enum" in value:
        return _kinds()[value["enum"]](value["of"])
    if "kind" in value:
        built = _kinds()[value["kind"]](**{name: _decode(held) for name, held in value["of"].items()})
        if not has_valid_types(built):
            raise ValueError(f"{value['kind']} holds something else than its fields say")
        return built
    if "map" in value:
        return {_decode(key): _decode(held) for key, held in value["map"]}
    if "tuple" in value:
        return tuple(_decode(held) for held in value["tuple"])
    return frozenset(_decode(held) for held in value["set"])
