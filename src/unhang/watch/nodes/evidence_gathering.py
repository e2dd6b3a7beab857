"""A leader's sample: wait for the evidence of the other nodes, put it beside our own, and note which nodes are silent.

Runs in the short-lived child that takes evidence, after our own was taken.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from unhang.watch import private_files
from unhang.watch.nodes.transport.evidence_pack import unpack_evidence
from unhang.wire.documents.other_nodes import ObservedNode, ObservedNodes

POLL_S = 0.05
AFTER_OURS_S, AFTER_STACKS_S = 2.5, 5.0
"""So much longer than ours the evidence of others may take: the request and the evidence have to travel."""
AT_THE_END_S = 6.0


@dataclass(frozen=True, slots=True)
class EvidenceGathering:
    """What to wait for. ``came``: the folder where ``NODE.zip`` arrives."""

    came: Path
    nodes: tuple[ObservedNode, ...] = ()
    limit_s: float = AFTER_OURS_S
    compare: bool = False
    """Write ``machine/compared.json`` from the dumps of all, where their calls differ."""

    def gather(self, folder: Path) -> None:
        """Wait, unpack into ``folder/nodes/NODE``, and write ``machine/nodes.json``."""
        wanted = [node for node in self.nodes if node.asked]
        shutil.rmtree(folder / "nodes", ignore_errors=True)
        came: set[int] = set()
        deadline = time.monotonic() + self.limit_s
        while wanted:
            there = [node for node in wanted if (self.came / f"{node.number}.zip").exists()]
            wanted = [node for node in wanted if node not in there]
            came |= {node.number for node in there if self._unpack(node, folder / "nodes")}
            if not wanted or time.monotonic() > deadline:
                break
            time.sleep(POLL_S)
        self._note(folder, came)
        if self.compare:
            self._compare(folder)

    def _unpack(self, node: ObservedNode, folder: Path) -> bool:
        target = folder / node.name
        if target.exists():
            target = target.with_name(f"{node.name}.{node.number}")
        return unpack_evidence(self.came / f"{node.number}.zip", target, ahead_s=node.ahead_s)

    def _compare(self, folder: Path) -> None:
        from unhang.watch.pace.call_drift import comparison_document, find_disagreements

        found = find_disagreements(folder / "dumps", *sorted((folder / "nodes").glob("*/dumps")))
        if found:
            with suppress(OSError):
                private_files.write(folder / "machine" / "compared.json", comparison_document(found))

    def _note(self, folder: Path, came: set[int]) -> None:
        nodes = tuple(replace(node, came=node.number in came) for node in self.nodes)
        with suppress(OSError):
            private_files.write(folder / "machine" / "nodes.json", ObservedNodes(nodes=nodes).json())
