"""The transport: a process of its own beside the watcher that alone touches the network or the shared folder.

``python -m unhang.watch.nodes.transport.transport_main RECORDS``. A network that hangs holds this process up and
nothing else; the watcher ends and starts it again when it says nothing for long. Ends with the watcher.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from unhang.host.own_process import end_with_parent
from unhang.report.language import translate
from unhang.watch import private_files
from unhang.watch.nodes.rank_digest import NodeHello, decoded
from unhang.watch.nodes.transport.evidence_parts import EvidenceFetch, send_evidence
from unhang.watch.nodes.transport.exchange_opener import MAX_LEADERS, ExchangeOpener, NoExchange, TransportConfig
from unhang.watch.nodes.transport.key_value_exchange import ExchangeError, KeyValueExchange, SignedValues
from unhang.watch.nodes.transport.mailbox import (
    FOLDER,
    ReceivedValue,
    TransportRequest,
    TransportState,
    request_mailbox,
    state_mailbox,
)
from unhang.watch.nodes.transport.reachability import ReachabilityProbe, own_address

POLL_S = 0.05
CALM_S, HURRY_S = 1.0, 0.2
"""Between two digests, and two reads of what others say: while all is well, and while somebody waits."""
HELLOS_S = 5.0
AGAIN_S = 1.0
BACK_S = 5.0
"""Seconds after which a node that uses a later store checks whether the first one is there again."""
STORE_LOST_AFTER_S = 6.0
"""So long a store may be gone (its keeper is started again) before the next node keeps one."""
MEMORY = 8 << 30


class Transport:
    """Carries between one watcher and the place where all meet."""

    def __init__(self, records: Path, config: TransportConfig) -> None:
        self._config = config
        self._requests, self._states = request_mailbox(records), state_mailbox(records)
        self._opener = ExchangeOpener(config, os.environ)
        self._place: KeyValueExchange | None = None
        self._sealed: SignedValues | None = None
        self._called = self._because = self._address = ""
        self._since_ns = time.monotonic_ns()
        self._lost_at = float("-inf")
        self._put: dict[str, bytes] = {}
        self._heard: dict[str, dict[int, ReceivedValue]] = {"h": {}, "d": {}, "w": {}, "v": {}}
        self._digest_at = self._read_at = self._words_at = self._hellos_at = self._again_at = float("-inf")
        self._went_back_at = time.monotonic()
        self._packed = 0
        self._turn = -1
        self._fetch: EvidenceFetch | None = None
        self._addresses: dict[int, str] = {}
        self._reachability = ReachabilityProbe()
        self.sent = self.received = 0
        self.given_up = self.left = False

    def run(self) -> None:
        """Main loop; ends with the watcher."""
        told_at = 0.0
        while True:
            self._requests.refresh()
            request = self._requests.last
            idle = request is None or self.given_up or self.left
            if request is not None and not idle:
                self._step(request)
            if idle:
                time.sleep(POLL_S)
            if time.monotonic() - told_at >= (HURRY_S if request is not None and request.hurry else CALM_S / 2):
                told_at = time.monotonic()
                self._tell()
            time.sleep(POLL_S)

    def _step(self, request: TransportRequest) -> None:
        if self._sealed is None and not self._open(request):
            return
        try:
            self._send(request)
            if self._read(request):
                self._tell()
            self._carry_evidence(request)
            if request.leave:
                self._leave()
            else:
                self._return_to_first_store()
        except ExchangeError as error:
            self._disconnect(str(error))
        if request.leads:
            self._reachability.tick({n: a for n, a in self._addresses.items() if n != self._opener.seat}, request.probe)

    def _open(self, request: TransportRequest) -> bool:
        now = time.monotonic()
        if now < self._again_at:
            return False
        self._again_at = now + AGAIN_S
        try:
            first_only = now - self._lost_at < STORE_LOST_AFTER_S
            place, token, self._called = self._opener.open(first_only=first_only)
            self._opener.seat = place.take_seat(self._opener.seat, self._config.name)
        except NoExchange as error:
            self._because, self.given_up = translate(error.text, self._config.lang), True
            self._tell()
            return False
        except ExchangeError as error:
            self._because = str(error)
            return False
        self._place = place
        # Opened anew it counts anew: what was said before must not look newer than what is said now.
        self._sealed = SignedValues(
            place, token, self._config.nodes.key, started=max(self._config.started, time.time_ns())
        )
        self._put.clear()
        self._packed = 0
        self._fetch = None
        self._because, self._since_ns = "", time.monotonic_ns()
        self._address = own_address(*self._config.peer_address)
        return bool(request.hello)

    def _return_to_first_store(self) -> None:
        """Return to the first store once it is reachable again, so that no two leaders exist."""
        if time.monotonic() - self._went_back_at < BACK_S:
            return
        self._went_back_at = time.monotonic()
        assert self._place is not None
        if self._opener.is_first_store_back(self._called) or self._place.moved():
            self._disconnect("")

    def _leave(self) -> None:
        """Leave the exchange for good."""
        assert self._place is not None
        self._place.leave()
        self.left = True
        self._tell()

    def _disconnect(self, because: str) -> None:
        if self._place is not None:
            self._place.close()
        if self._sealed is not None:
            self._since_ns, self._lost_at = time.monotonic_ns(), time.monotonic()
        self._place = self._sealed = None
        self._because = because
        self._tell()

    def _set(self, kind: str, value: bytes) -> None:
        assert self._sealed is not None
        if value and self._put.get(kind) != value:
            self.sent += self._sealed.put(f"{kind}/{self._opener.seat}", value)
            self._put[kind] = value

    def _send(self, request: TransportRequest) -> None:
        for kind, value in (("h", request.hello), ("v", request.said), ("w", request.word)):
            self._set(kind, value)
        turned = request.hurry and request.turn != self._turn
        if time.monotonic() - self._digest_at >= (HURRY_S if turned else CALM_S):
            self._digest_at, self._turn = time.monotonic(), request.turn
            self._set("d", request.digest)

    def _read(self, request: TransportRequest) -> bool:
        """Whether there was time for it."""
        now = time.monotonic()
        if now - self._read_at < (HURRY_S if request.hurry else CALM_S / 2):
            return False
        assert self._place is not None
        self._read_at = now
        seats = self._place.seats()
        # Thousands of nodes look often while somebody waits: then most reads are of one value only.
        all_words = now - self._words_at >= CALM_S / 2 or not 0 <= request.leader < seats
        if all_words:
            self._words_at = now
        self._hear("w", range(min(MAX_LEADERS, seats)) if all_words else [request.leader])
        if request.leads:
            self._hear("d", range(seats))
        self._read_hellos(range(seats if request.leads else min(MAX_LEADERS, seats)))
        changed = [n for n, heard in self._heard["w"].items() if heard.heard_ns / 1e9 >= now]
        if changed:
            self._hear("v", [n for n in changed if n != self._opener.seat])
        return True

    def _read_hellos(self, nodes: range) -> None:
        unknown = [node for node in nodes if node not in self._heard["h"]]
        if time.monotonic() - self._hellos_at >= HELLOS_S:
            self._hellos_at, unknown = time.monotonic(), list(nodes)
        if unknown:
            self._hear("h", unknown)
            self._keep_addresses()

    def _hear(self, kind: str, nodes: Iterable[int]) -> None:
        assert self._sealed is not None
        found, heard = self._sealed.get([f"{kind}/{n}" for n in nodes]), self._heard[kind]
        now_ns = time.monotonic_ns()
        for key, value in found.items():
            self.received += len(key) + len(value) + 32
            node = int(key[2:])
            known = heard.get(node)
            if known is None:
                heard[node] = ReceivedValue(node, now_ns, now_ns, value)
            elif known.value != value:
                heard[node] = ReceivedValue(node, known.first_ns, now_ns, value)

    def _keep_addresses(self) -> None:
        hellos = {node: decoded(heard.value, NodeHello) for node, heard in self._heard["h"].items()}
        self._addresses = {node: hello.address for node, hello in hellos.items() if hello is not None and hello.address}
        self._opener.addresses = {node: self._addresses[node] for node in self._addresses if node < MAX_LEADERS}

    def _carry_evidence(self, request: TransportRequest) -> None:
        assert self._sealed is not None
        if request.pack > self._packed:
            self._packed = request.pack
            with suppress(OSError):
                content = Path(request.pack_path).read_bytes()
                self.sent += send_evidence(self._sealed, self._opener.seat or 0, request.pack, content)
        if request.wanted and (self._fetch is None or self._fetch.number != request.wanted):
            self._fetch = EvidenceFetch(request.wanted, request.wanted_nodes, Path(request.arrival_path))
        if self._fetch is not None and request.wanted:
            self.received += self._fetch.tick(self._sealed)

    def _tell(self) -> None:
        self._states.put(
            TransportState(
                at_ns=time.monotonic_ns(),
                met=self._sealed is not None,
                since_ns=self._since_ns,
                because=self._because,
                is_permanent=self.given_up,
                place=self._called,
                address=self._address,
                seat=self._opener.seat if self._opener.seat is not None else -1,
                hellos=list(self._heard["h"].values()),
                digests=list(self._heard["d"].values()),
                words=list(self._heard["w"].values()),
                said=list(self._heard["v"].values()),
                answers=dict(self._reachability.latest),
                answered=sorted(self._reachability.ever_answered),
                sent=self.sent,
                received=self.received,
                left=self.left,
            )
        )


def config_file(records: Path) -> Path:
    """Where the watcher leaves the transport's configuration."""
    return records / FOLDER / "config.json"


def write_config(records: Path, config: TransportConfig) -> None:
    """Raises OSError where there is no room."""
    private_files.make_folder(records / FOLDER)
    private_files.write_atomically(config_file(records), msgspec.json.encode(config))


def main() -> int:
    """Carry for the watcher that started us."""
    end_with_parent(os.getppid())
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with suppress(OSError):
        os.nice(1)
    records = Path(sys.argv[1])
    Transport(records, msgspec.json.decode(config_file(records).read_bytes(), type=TransportConfig)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
