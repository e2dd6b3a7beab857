"""An inspection as bytes, so that one rank can compare what all of them saw: MessagePack, read by our own types."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

import msgspec

from unhang.check.devices import devices
from unhang.check.environment import environment
from unhang.check.network import network
from unhang.check.probe_results import probe_results
from unhang.check.sameness import sameness
from unhang.check.storage import storage
from unhang.errors import EvidenceError
from unhang.host.inspection_result import InspectionResult, NodeInspection
from unhang.program.launch import job_environment, launch
from unhang.program.launch.job_environment import JobEnvironment, comparable_variables
from unhang.program.program_source import ProgramSource
from unhang.program.settings import model_size
from unhang.sentences import Text, say

NOT_SENT = (ProgramSource,)
"""Sources are compared by their hashes and never travel."""
SENT_MODULES = (devices, environment, network, probe_results, sameness, storage, job_environment, launch, model_size)
"""Modules whose dataclasses travel."""
MAX_BYTES = 16 << 20
_KINDS: Mapping[str, type] = {
    kind.__name__: kind
    for module in SENT_MODULES
    for kind in vars(module).values()
    if is_dataclass(kind) and isinstance(kind, type) and kind.__module__ == module.__name__
}
_HOW = re.compile(r"[\w .,|%-]{0,60}")
_WIDTH = re.compile(r"\d{3,}")
_SAID = (str, int, float, Text, tuple, type(None))


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``results``: by the name of their kind, each as written."""

    node: str
    rank: int | None
    results: dict[str, msgspec.Raw]


def encode_inspection(here: NodeInspection) -> bytes:
    """``here``, without sources and without variables of the shell that are none of ours."""
    sent = {kind.__name__: _written(result) for kind, result in here.results.items() if kind not in NOT_SENT}
    return msgspec.msgpack.encode(_Message(here.node, here.rank, sent))


def _written(result: InspectionResult[Any]) -> msgspec.Raw:
    if isinstance(result.found, JobEnvironment):
        settings = result.found.in_force
        names = comparable_variables({name: setting.value for name, setting in settings.items()})
        shadowed = tuple(pair for pair in result.found.shadowed if pair[0].name in names)
        kept = JobEnvironment({name: settings[name] for name in names}, shadowed)
        result = InspectionResult(kept, result.because, result.how)
    try:
        return msgspec.Raw(msgspec.msgpack.encode(result, enc_hook=str))
    except OverflowError:  # somebody's configuration holds a number of more than 64 bits
        because = say("it contains a number too large to send")
        return msgspec.Raw(msgspec.msgpack.encode(InspectionResult(because=because)))


def decode_inspection(message: bytes) -> NodeInspection:
    """What :func:`encode_inspection` wrote.

    Raises:
        EvidenceError: the message is no inspection, or one of another version of unhang.
    """
    if len(message) > MAX_BYTES:
        raise EvidenceError(f"the answer of a rank is larger than {MAX_BYTES >> 20} MB")
    try:
        sent = msgspec.msgpack.decode(message, type=_Message)
        results = {_KINDS[name]: _read(raw, _KINDS[name]) for name, raw in sent.results.items()}
    except (msgspec.MsgspecError, ValueError, LookupError, RecursionError) as error:
        raise EvidenceError(f"the answer of a rank cannot be read ({type(error).__name__}: {error})") from error
    return NodeInspection(sent.node, sent.rank, results)


def _read(raw: msgspec.Raw, kind: type) -> InspectionResult[Any]:
    result: InspectionResult[Any] = msgspec.msgpack.decode(raw, type=InspectionResult[kind])  # type: ignore[valid-type]
    for value in _inside(result):
        if isinstance(value, Text) and not _can_be_said(value):
            raise ValueError("a sentence with missing values")
        if isinstance(value, float) and math.isnan(value):
            raise ValueError("a value that is not a number")
    return result


def _inside(value: Any) -> Iterator[Any]:
    """``value`` and all it holds; what stands in a sentence becomes again what it was."""
    if isinstance(value, Text):
        for name, held in value.values.items():
            if isinstance(held, dict):
                cast("dict[str, Any]", value.values)[name] = msgspec.convert(held, Text)
            elif isinstance(held, list):
                cast("dict[str, Any]", value.values)[name] = tuple(held)
    yield value
    held_in: Any = ()
    if is_dataclass(value):
        held_in = (getattr(value, one.name) for one in fields(value))
    elif isinstance(value, Mapping):
        held_in = value.values()
    elif isinstance(value, tuple | list | frozenset):
        held_in = value
    for one in held_in:
        yield from _inside(one)


def _can_be_said(text: Text) -> bool:
    """Whether a sentence has a value for every place, and no place reaches into one or asks for endless room."""
    if not all(isinstance(value, _SAID) for value in text.values.values()):
        return False
    for _, name, how, convert in string.Formatter().parse(text.template):
        if name is not None and (convert or name not in text.values or not _is_short(how or "")):
            return False
    str(text)  # ValueError where a value cannot be written so
    return True


def _is_short(how: str) -> bool:
    return bool(_HOW.fullmatch(how)) and not _WIDTH.search(how)
