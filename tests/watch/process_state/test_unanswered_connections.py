"""Connections nobody answers are seen from outside, and only those."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from unhang.watch.attach.collected_evidence import always_unanswered
from unhang.watch.process_state.sockets import _peer, unanswered_addresses
from unhang.watch.process_state.stack_collection import KernelSample, ProcessSample

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


@pytest.fixture
def full() -> Iterator[tuple[str, int]]:
    """A port whose queue is full: the kernel leaves what comes then without an answer."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address: tuple[str, int] = listener.getsockname()
        for _ in range(4):
            caller = stack.enter_context(socket.socket())
            caller.setblocking(False)
            caller.connect_ex(address)
        yield address


def test_a_connection_without_an_answer_is_seen(full: tuple[str, int]) -> None:
    assert unanswered_addresses(os.getpid()) == {full}


def test_one_that_was_answered_and_one_that_listens_are_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        assert unanswered_addresses(os.getpid()) == frozenset()


def test_a_process_that_is_gone_tells_nothing() -> None:
    assert unanswered_addresses(2**22 + 1) == frozenset()


@pytest.mark.skipif(sys.byteorder != "little", reason="as the kernel prints it on little-endian machines")
@pytest.mark.parametrize(
    ("printed", "peer"),
    [
        ("02025B0A:8831", ("10.91.2.2", 34865)),
        ("0000000000000000FFFF0000020A0A0A:01BB", ("10.10.10.2", 443)),
        ("B80D01200000000000000000" + "01000000:0050", ("2001:db8::1", 80)),
    ],
)
def test_addresses_as_the_kernel_prints_them(printed: str, peer: tuple[str, int]) -> None:
    assert _peer(printed) == peer


def test_attach_says_only_what_stays_without_an_answer(full: tuple[str, int]) -> None:
    first, second = kernel_only(), kernel_only()

    assert always_unanswered([first, second]) == (f"{full[0]}:{full[1]}",)
    assert always_unanswered([first]) == ()
    assert always_unanswered([first, ProcessSample(first.pid, 0.0, KernelSample())]) == ()


def kernel_only() -> ProcessSample:
    return ProcessSample(os.getpid(), 0.0, KernelSample(), unanswered=unanswered_addresses(os.getpid()))
