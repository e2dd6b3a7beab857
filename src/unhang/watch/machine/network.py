"""What the network did: bytes, errors and lost links of every interface, TCP segments sent again, InfiniBand ports.

Read in the network namespace of a rank where there is one: a container's interfaces are its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unhang.watch.machine.counters import Counters, KernelPaths, rate, read_number
from unhang.watch.process_state.proc_processes import text_of

MAX_INTERFACES = 32
_BAD = ("symbol_error", "port_rcv_errors", "port_xmit_discards", "local_link_integrity_errors")
WORD = 4
"""InfiniBand counts data in words of so many bytes."""


class Network:
    """Rates between two samples."""

    def __init__(self, places: KernelPaths) -> None:
        self._places = places
        self._counters = Counters()

    def sample(self, seconds: float, pid: int | None) -> dict[str, Any]:
        """``net`` by interface, ``tcp``, ``ib`` by port."""
        root = self._places.proc / (str(pid) if pid is not None else "self") / "net"
        if not root.exists():
            root = self._places.proc / "self" / "net"
        found = {"net": self._interfaces(root, seconds), "tcp": self._tcp(root), "ib": self._infiniband(seconds)}
        return {name: told for name, told in found.items() if told}

    def _interfaces(self, root: Path, seconds: float) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for line in text_of(root / "dev").splitlines()[2:]:
            name, _, rest = line.partition(":")
            words = rest.split()
            if len(words) < 12 or len(found) >= MAX_INTERFACES:
                continue
            name, counts = name.strip(), [int(word) for word in words]
            here = self._places.sys / "class" / "net" / name
            changes = read_number(here / "carrier_changes") or 0
            grown = self._counters.since(
                f"net {name}", (counts[0], counts[8], counts[2] + counts[10], counts[3] + counts[11], changes)
            )
            if grown is None or not (any(grown) or name == "lo" or counts[0]):
                continue
            found[name] = {
                "rx_bps": rate(grown[0], seconds),
                "tx_bps": rate(grown[1], seconds),
                "errors": grown[2],
                "dropped": grown[3],
                "link_changes": grown[4],
                **({"state": state} if (state := text_of(here / "operstate").strip()) else {}),
            }
        return found

    def _tcp(self, root: Path) -> dict[str, Any]:
        lines = [line.split()[1:] for line in text_of(root / "snmp").splitlines() if line.startswith("Tcp:")]
        if len(lines) != 2:
            return {}
        told = {name: int(word) for name, word in zip(*lines, strict=False) if word.lstrip("-").isdecimal()}
        if "OutSegs" not in told or "RetransSegs" not in told:
            return {}
        grown = self._counters.since("tcp", (told["OutSegs"], told["RetransSegs"]))
        return {"sent": grown[0], "sent_again": grown[1]} if grown is not None else {}

    def _infiniband(self, seconds: float) -> dict[str, Any]:
        found: dict[str, Any] = {}
        folder = self._places.sys / "class" / "infiniband"
        for port in sorted(folder.glob("*/ports/*"))[:MAX_INTERFACES]:
            counts = [read_number(port / "counters" / name) or 0 for name in ("port_rcv_data", "port_xmit_data")]
            bad = sum(read_number(port / "counters" / name) or 0 for name in _BAD)
            downed = read_number(port / "counters" / "link_downed") or 0
            name = f"{port.parent.parent.name}/{port.name}"
            grown = self._counters.since(f"ib {name}", (*counts, bad, downed))
            if grown is not None:
                found[name] = {
                    "rx_bps": rate(grown[0] * WORD, seconds),
                    "tx_bps": rate(grown[1] * WORD, seconds),
                    "errors": grown[2],
                    "link_changes": grown[3],
                    "state": text_of(port / "state").strip().rpartition(": ")[2],
                }
        return found
