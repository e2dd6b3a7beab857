"""Two stores at once would be two companies: who uses the one of a later node returns to the first when it is back."""

from __future__ import annotations

import time

from tests.ports import free_port
from unhang.watch.nodes.transport.exchange_opener import ExchangeOpener, TransportConfig
from unhang.watch.nodes.transport.node_discovery import JobNodes
from unhang.watch.nodes.transport.store_exchange import StoreExchange


def opener(number: int, port: int) -> ExchangeOpener:
    party = JobNodes("key", 3, number, "127.0.0.1", 29500, f"127.0.0.1:{port}")
    return ExchangeOpener(TransportConfig(party, f"h{number}", "/tmp/run"), {})


def test_the_first_store_is_seen_when_it_is_back() -> None:
    port = free_port()
    later = opener(1, port)

    assert not later.is_first_store_back(f"127.0.0.2:{port}")
    first, _, called = opener(0, port).open()
    try:
        assert later.is_first_store_back(f"127.0.0.2:{port}")
        assert not later.is_first_store_back(called)
        assert not opener(0, port).is_first_store_back(f"127.0.0.2:{port}")
    finally:
        first.close()


def test_a_later_node_goes_back_to_it() -> None:
    port = free_port()
    later = opener(1, port)
    later.addresses = {1: "127.0.0.2"}
    own, _, called = later.open()
    assert called == f"127.0.0.2:{port}"

    first, _, _ = opener(0, port).open()
    assert later.is_first_store_back(called)
    own.close()
    back, _, called = later.open()

    assert called == f"127.0.0.1:{port}"
    first.put("w/0", b"here")
    deadline = time.monotonic() + 60
    while back.get(["w/0"]) != {"w/0": b"here"}:
        assert time.monotonic() < deadline
    assert isinstance(back, StoreExchange)
    back.close()
    first.close()
