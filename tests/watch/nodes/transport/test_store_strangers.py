"""The store in which watchers meet tells a stranger nothing, believes it nothing, and is not kept busy by it."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from tests.ports import free_port
from tests.waiting import wait_for
from tests.work import calls_of
from unhang.watch.nodes.transport import store_server
from unhang.watch.nodes.transport.exchange_opener import ExchangeOpener, NoExchange, TransportConfig
from unhang.watch.nodes.transport.key_value_exchange import MAX_BYTES, ExchangeError
from unhang.watch.nodes.transport.node_discovery import JobNodes
from unhang.watch.nodes.transport.store_exchange import StoreExchange
from unhang.watch.nodes.transport.store_server import (
    NONCE,
    LimitExceeded,
    StoredValues,
    StoreRequest,
    StoreServer,
    proof,
)

TOKEN, KEY = "a-token-long-enough", "job"
HOST, FOLDER = b"secret-host-name", b"/home/somebody/secret-folder"


@pytest.fixture
def port() -> Iterator[int]:
    number = free_port()
    keeper = StoreExchange("127.0.0.1", number, keep=True, token=TOKEN, key=KEY)
    keeper.take_seat(None, HOST.decode())
    keeper.put("h/0", HOST + FOLDER)
    yield number
    keeper.close()


def friend(port: int, **how: object) -> StoreExchange:
    return StoreExchange("127.0.0.1", port, keep=False, **{"token": TOKEN, "key": KEY, **how})  # type: ignore[arg-type]


def everything(line: socket.socket, limit_s: float = 10.0) -> bytes:
    line.settimeout(limit_s)
    told = b""
    with suppress(OSError):
        while more := line.recv(65536):
            told += more
    return told


def question(*words: object) -> bytes:
    body = msgspec.msgpack.encode(StoreRequest(*words))  # type: ignore[arg-type]
    return len(body).to_bytes(4, "big") + body


STRANGERS = {
    "says nothing": b"",
    "asks at once": question("g", ["h/0"]) * 20,
    "sets at once": question("s", ["d/0"], b"x" * 1000) * 20,
    "guesses": secrets.token_bytes(2 * NONCE) + question("g", ["h/0"]),
    "knows another word": b"proof",
    "plays our own words back": b"echo",
    "speaks the store's protocol of torch": b"\x3c\x85\xf7\xce\x00\x00\x00\x00" + b"\x05" + b"\x00" * 64,
    "speaks HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "sends without end": os.urandom(1 << 20),
}


@pytest.mark.parametrize("name", STRANGERS)
def test_a_stranger_learns_nothing(name: str, port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)) as line:
        nonce = line.recv(NONCE)
        own = secrets.token_bytes(NONCE)
        content = STRANGERS[name]
        if content == b"proof":
            content = own + proof(hashlib.sha256(b"another").digest(), 0, nonce + own) + question("g", ["h/0"])
        elif content == b"echo":
            content = nonce + nonce
        with suppress(OSError):
            line.sendall(content)
        told = everything(line)

    assert told == b""
    assert len(nonce) == NONCE
    assert friend(port).get(["h/0", "d/0"]) == {"h/0": HOST + FOLDER}


def test_a_client_of_torch_learns_nothing(port: int) -> None:
    code = (
        "from datetime import timedelta\nfrom torch.distributed import TCPStore\n"
        "limit = timedelta(seconds=3)\n"
        f"try:\n store = TCPStore('127.0.0.1', {port}, None, False, timeout=limit, wait_for_workers=False)\n"
        " store.set('d/0', 'x' * 100)\n print(store.get('h/0'))\nexcept Exception as error: print('refused')"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)

    assert "secret" not in ran.stdout + ran.stderr
    assert friend(port).get(["d/0"]) == {}


def test_who_keeps_a_store_without_the_word_is_told_nothing() -> None:
    """Somebody else sits at the port: the name of this host is not for it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        pid = os.fork()
        if pid == 0:
            line, _ = listener.accept()
            line.sendall(secrets.token_bytes(NONCE))
            told = line.recv(4096)
            line.sendall(secrets.token_bytes(NONCE))
            told += everything(line, 2)
            os._exit(len(told) - 2 * NONCE)
        with pytest.raises(ExchangeError, match="no watcher with the same token"):
            friend(listener.getsockname()[1]).take_seat(None, HOST.decode())
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("how", [{"token": "another-token-here"}, {"key": "another job"}])
def test_another_token_or_job_is_refused_and_said(how: dict[str, str], port: int) -> None:
    with pytest.raises(ExchangeError, match="no watcher with the same token"):
        friend(port, **how)


def test_of_those_who_knock_without_end_few_are_let_in_and_nobody_is_locked_out(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_in = []
    welcome = StoreServer._start_serving
    monkeypatch.setattr(StoreServer, "_start_serving", lambda *of: (let_in.append(of), welcome(*of)))
    knocks = (
        "import socket, time\nend = time.monotonic() + 4\n"
        "while time.monotonic() < end:\n"
        " try:\n"
        f"  with socket.create_connection(('127.0.0.1', {port}), 1) as line: line.sendall(b'x' * 64)\n"
        " except OSError: pass\n"
    )
    began = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", knocks]):
        wait_for(lambda: len(let_in) > 100)
        assert friend(port, limit_s=20.0).get(["h/0"])
    took_s = time.monotonic() - began

    assert len(let_in) <= (took_s + 1) * store_server.ACCEPTED_A_SECOND + 1


def test_strangers_that_stay_are_few_and_not_for_long(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_server, "HANDSHAKE_S", 1.0)
    numbers = len(list(Path("/proc/self/fd").iterdir()))
    lines = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
    most = 0
    for line in lines:  # one after the other they are let go, refused ones first
        line.settimeout(60)
        with suppress(OSError):
            while line.recv(4096):
                most = max(most, len(list(Path("/proc/self/fd").iterdir())) - numbers - len(lines))

    assert 0 < most <= store_server.MAX_FROM_ONE
    assert friend(port).get(["h/0"])
    for line in lines:
        line.close()


def test_what_friends_put_is_bounded_too(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    place = friend(port)
    with pytest.raises(ExchangeError, match="too many"):
        place.put("d/1", b"x" * (MAX_BYTES + 65))
    for wrong in (
        StoreRequest("s", ["x" * 300], b"y"),
        StoreRequest("r", number=1 << 40),
        StoreRequest("r", number=-1),
    ):
        with pytest.raises(LimitExceeded):
            StoredValues().answer(wrong)
        with pytest.raises(ExchangeError):
            friend(port)._ask(wrong)
    monkeypatch.setattr(store_server, "MAX_KEPT", 100)
    monkeypatch.setattr(store_server, "MAX_KEYS", 2)
    values = StoredValues()
    values.answer(StoreRequest("s", ["a"], b"x" * 60))
    values.answer(StoreRequest("s", ["a"], b"x" * 90))
    with pytest.raises(LimitExceeded):
        values.answer(StoreRequest("s", ["b"], b"x" * 60))
    values.answer(StoreRequest("s", ["b"], b""))
    with pytest.raises(LimitExceeded):
        values.answer(StoreRequest("s", ["c"], b""))


def test_much_is_read_in_parts(port: int) -> None:
    place = friend(port)
    content = {f"e/1/{part}": os.urandom(MAX_BYTES) for part in range(12)}
    for key, value in content.items():
        place.put(key, value)

    assert friend(port).get([*content, "e/1/99"]) == content


def test_a_thousand_nodes_cost_little(port: int) -> None:
    """What a leader of 1,250 nodes asks for twice a second: one question, and some calls a node to answer it."""
    place, values = friend(port), StoredValues()
    keys = [f"d/{node}" for node in range(1250)]
    for key in keys:
        place.put(key, b"x" * 200)
        values.answer(StoreRequest("s", [key], b"x" * 200))

    assert len(place.get(keys)) == 1250
    assert calls_of(lambda: place.get(keys)) < 100
    assert calls_of(lambda: values.answer(StoreRequest("g", keys))) < 4 * 1250


def test_on_one_machine_the_token_is_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    party = JobNodes(key="k", count=2, number=0, address="127.0.0.1", port=1, via=f"127.0.0.1:{free_port()}")
    place, token, _ = ExchangeOpener(TransportConfig(party, "h0", str(tmp_path)), {}).open()
    place.close()
    (folder,) = tmp_path.iterdir()

    assert len(token) >= 16
    assert folder.stat().st_mode & 0o077 == 0
    folder.chmod(0o755)
    with pytest.raises(NoExchange):
        ExchangeOpener(TransportConfig(party, "h0", str(tmp_path)), {}).open()
