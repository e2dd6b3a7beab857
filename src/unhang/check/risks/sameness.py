"""Risks in what differs between nodes: code, settings, versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from unhang.check.risks.risk import Answer, RiskRows, asked_of_several
from unhang.check.sameness.sameness import (
    NodeDifference,
    NodeFingerprint,
    RankStart,
    compared_count,
    differences,
    starts_of,
    values_by_ranks,
)
from unhang.findings import Cause, Evidence, Grade, Severity, Source
from unhang.host.inspection_result import NodeInspection
from unhang.sentences import first_names

ROWS = RiskRows("sameness")
PLACES_TOLD = 4
_NODES_OWN = ("IFNAME", "_HCA", "NET_DEVICES", "_GID_INDEX", "TOPO_FILE", "LOCAL_WORLD_SIZE", "DEBUG", "_FILE")
_OF_TRANSPORT = ("NCCL_", "TORCH_", "GLOO_", "MASTER_", "WORLD_SIZE", "UCX_", "FI_", "OFI_")
_OF_RENDEZVOUS = ("MASTER_", "WORLD_SIZE")
_CALLS_COLLECTIVES = {"torch", "nccl", "cuda", "deepspeed", "accelerate", "transformers", "trl", "lightning"}
"""They speak to the other ranks, or decide what is spoken."""
_A_NOTE: Mapping[str, Any] = {"severity": Severity.NOTE, "grade": Grade.BASE_RATE}


def same_versions(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """NCCL misreads a neighbour of another version, and another release of a library calls other collectives."""
    found = differences(situations, lambda node: node.versions)
    for difference in found:
        noted = {} if difference.name in _CALLS_COLLECTIVES else _A_NOTE
        yield ROWS.risk("versions-differ", _names(difference), **_seen(difference), **noted)
    if compared_count(situations) > 1 and not found:
        yield ROWS.fine("same-versions")
    starts = starts_of(situations)
    for name in sorted({name for start in starts for name in start.versions} - {one.name for one in found}):
        if len({start.versions.get(name, "") for start in starts}) > 1:
            values = {"name": name, "values": values_by_ranks(starts, _version_of(name))}
            yield ROWS.risk("ranks-load-other-versions", values, **({} if name in _CALLS_COLLECTIVES else _A_NOTE))


def _version_of(name: str) -> Callable[[RankStart], str]:
    return lambda start: start.versions.get(name, "?")


def same_files(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """A node with older code or another configuration calls other collectives, or takes other data."""
    found = differences(situations, _files)
    yield from (ROWS.risk("files-differ", _names(one), **_seen(one)) for one in found)
    count = max((len(_files(node)) for s in situations if (node := s.found(NodeFingerprint)) is not None), default=0)
    if compared_count(situations) > 1 and count and not found:
        yield ROWS.fine("same-files", count=count)


def _files(node: NodeFingerprint) -> Mapping[str, str]:
    return {**node.program, **node.configuration}


def same_environment(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """NCCL chooses its way by these variables: two nodes that are told otherwise wait for each other."""
    found = differences(situations, lambda node: node.environment)
    for difference in found:
        nodes_own = any(part in difference.name for part in _NODES_OWN)
        noted = {} if difference.name.startswith(_OF_TRANSPORT) and not nodes_own else _A_NOTE
        cause = Cause.RENDEZVOUS if difference.name.startswith(_OF_RENDEZVOUS) else Cause.NETWORK_CONFIG
        yield ROWS.risk("settings-differ", _names(difference), cause=cause, **_seen(difference), **noted)
    if compared_count(situations) > 1 and not found:
        yield ROWS.fine("same-environment")


def same_nodes(situations: Sequence[NodeInspection]) -> Iterator[Answer]:
    """One node alone has nothing to compare with, where the job spans more."""
    if len(situations) == 1:
        node = situations[0].found(NodeFingerprint)
        if node is not None and node.others:
            how = "srun --ntasks-per-node=1 unhang check --dir SHARED -- CMD"
            yield ROWS.could_not("same-nodes", ROWS.words("only-this-node"), how)


def _names(difference: NodeDifference) -> Mapping[str, str]:
    return {"name": difference.name, "places": first_names(difference.outliers, PLACES_TOLD)}


def _seen(difference: NodeDifference) -> Mapping[str, Any]:
    """The places with the rarest value, and the values as they were seen: one place each."""
    values = sorted(difference.places.items(), key=lambda item: len(item[1]))
    return {
        "nodes": difference.outliers,
        "because": tuple(
            ROWS.words("value-on-places", value=value or ROWS.words("nothing"), places=first_names(places, PLACES_TOLD))
            for value, places in values
        ),
        "evidence": tuple(
            Evidence(Source(places[0]), f"{difference.name}: {value}") for value, places in difference.places.items()
        ),
    }


RISKS = asked_of_several("sameness", same_versions, same_files, same_environment, same_nodes)
