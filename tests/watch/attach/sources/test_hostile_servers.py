"""Whatever listens where the job should: attach asks within bounds, believes nothing it cannot check, and goes on."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unhang.watch.attach.sources import debug_server, nccl_ras, recorder_files
from unhang.watch.attach.sources.bounded_requests import http_body, send_request
from unhang.watch.process_state.proc_processes import Process
from unhang.watch.process_state.rank_processes import LiveRank
from unhang.watch.process_state.sockets import listening_ports

LIMIT_S = 30.0
"""For whatever does answer, on a busy machine too."""
STATUS = """NCCL version 2.24.3 compiled with CUDA 12.8
Job summary
===========

Communicators... (0.00s)
=============

  Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
      #  in group  per comm  per node  per comm  in group
      0         1         2         4         8         8   RUNNING  MISMATCH

Errors
======

DEAD
  1 job process is considered dead (unreachable via the RAS network)
    Process 3487984 on node 192.0.2.7 managing GPU 2

Warnings
========

  #0-0 (27a079b828ff1a75) MISMATCH
    Communicator ranks have different collective operation counts
    6 ranks have launched up to operation 6650
    2 ranks have launched up to operation 6649
    Rank 3 -- GPU 3 managed by process 483072 on node 192.0.2.10
    Rank 5 -- GPU 1 managed by process 483074 on node 192.0.2.11
"""


@contextlib.contextmanager
def served(behave: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server on loopback that treats every caller to ``behave``."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                with contextlib.suppress(OSError):
                    line, _ = listener.accept()
                    with line, contextlib.suppress(OSError):
                        line.settimeout(2 * LIMIT_S)
                        behave(line)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            thread.join(timeout=LIMIT_S)


def hangs(line: socket.socket) -> None:
    while line.recv(4096):
        pass  # until the caller has had enough


def drips(line: socket.socket) -> None:
    while True:  # until the caller is gone
        line.sendall(b"x")
        time.sleep(0.02)


def floods(line: socket.socket) -> None:
    line.recv(4096)
    block = b"A" * (1 << 20)
    for _ in range(100):
        line.sendall(block)


def says(answer: bytes) -> Callable[[socket.socket], None]:
    def behave(line: socket.socket) -> None:
        line.recv(4096)
        line.sendall(answer)

    return behave


def rank_here(tmp_path: Path, **environment: str) -> LiveRank:
    process = Process(
        os.getpid(), 1, "S", 0, os.getuid(), ("python", "train.py"), {"HOME": str(tmp_path), **environment}
    )
    return LiveRank(process, 0, 2, 0, 0, None, ("", "", "", "2"))


@pytest.mark.parametrize("behave", [hangs, drips])
def test_a_silent_server_takes_no_longer_than_the_limit(behave: Callable[[socket.socket], None]) -> None:
    with served(behave) as port:  # silent for as long as we ask
        assert nccl_ras.query_ras(("127.0.0.1", port), limit_s=0.4) is None
        assert http_body("127.0.0.1", port, "GET", "/", limit_s=0.4, most=1000) is None


def test_a_flood_is_cut_off() -> None:
    with served(floods) as port:
        answer = send_request("127.0.0.1", port, b"verbose status\n", limit_s=LIMIT_S, most=1 << 20)
        assert answer is not None
        assert len(answer) == 1 << 20
        assert nccl_ras.query_ras(("127.0.0.1", port), limit_s=LIMIT_S) is None


def test_nobody_there_is_no_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert nccl_ras.query_ras(("127.0.0.1", port), limit_s=LIMIT_S) is None


def test_a_status_names_ranks_behind_and_dead_nodes() -> None:
    with served(says(STATUS.encode())) as port:
        reports = [nccl_ras.query_ras(("127.0.0.1", port), limit_s=LIMIT_S) for _ in range(2)]
    first, second = reports
    assert first is not None
    assert second is not None
    assert [(s.pid, s.node) for s in first.dead] == [(3487984, "192.0.2.7")]
    assert first.dead_nodes == ()
    assert [(s.rank, s.pid, s.operation) for s in nccl_ras.ranks_behind(first, second)] == [
        (3, 483072, 6649),
        (5, 483074, 6649),
    ]


# NCCL 2.26 and later count each function apart, and tell one rank of its kind on one line (src/ras/client_support.cc).
BY_FUNCTION = """NCCL version 2.29.7 compiled with CUDA 13.0
Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          2            1          8        8

Communicators... (0.00s)
=============

Errors
======

DEAD
  2 job processes are considered dead (unreachable via the RAS network)
  Process 311 on node node4 managing GPU 0
  Process 312 on node node4 managing GPU 1

#0-0 (78db921d1c117b4a) INCOMPLETE
  Missing communicator data from 1 job process
  Process 21 on node node2 managing GPU 0

Warnings
========

#0-0 (78db921d1c117b4a) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 64
  Rank 7 has launched up to operation 60 -- GPU 3 managed by process 1650386 on node node1

  Communicator ranks have different Broadcast operation counts
  7 ranks have launched up to operation 2
  Rank 3 has not launched any operations -- [process information not found]

#0-1 (28db921d1c117b4a) MISMATCH
  Communicator ranks have different status
  7 ranks have status RUNNING
  Rank 5 has status ABORT -- GPU 5 managed by process 77 on node node1
  Rank 6 reported ncclRemoteError -- GPU 6 managed by process 78 on node node1
"""


def test_a_single_rank_behind_is_told_on_one_line_and_functions_are_counted_apart() -> None:
    report = nccl_ras.parse(BY_FUNCTION)
    late = [(s.rank, s.pid, s.function, s.operation) for s in nccl_ras.ranks_behind(report, report)]
    assert late == [(7, 1650386, "AllReduce", 60), (3, None, "Broadcast", 0)]
    assert report.furthest == {("78db921d1c117b4a", "AllReduce"): 64, ("78db921d1c117b4a", "Broadcast"): 2}


def test_a_node_is_dead_when_all_its_processes_are() -> None:
    assert nccl_ras.parse(BY_FUNCTION).dead_nodes == ("node4",)
    alone = BY_FUNCTION.replace("  Process 312 on node node4 managing GPU 1\n", "")
    assert nccl_ras.parse(alone).dead_nodes == ()


def test_ranks_in_other_trouble_are_named_and_not_called_behind() -> None:
    named = {(s.rank, s.pid) for s in nccl_ras.parse(BY_FUNCTION).statements if s.rank in (5, 6)}
    assert named == {(5, 77), (6, 78)}


def test_counts_that_move_are_no_stall() -> None:
    later = STATUS.replace("6650", "6700").replace("6649", "6699")
    assert nccl_ras.ranks_behind(nccl_ras.parse(STATUS), nccl_ras.parse(later)) == ()


def test_ras_is_asked_on_this_machine_only(tmp_path: Path) -> None:
    def address(**environment: str) -> tuple[str, int] | None:
        return nccl_ras.ras_address([rank_here(tmp_path, **environment)])

    assert address(NCCL_RAS_ADDR="127.0.0.1:28000") == ("127.0.0.1", 28000)
    assert address(NCCL_RAS_ADDR="localhost:bad") == ("localhost", nccl_ras.PORT)
    assert address(NCCL_RAS_ADDR="192.0.2.1:28028") is None
    assert address(NCCL_RAS_ADDR="some.host.example:28028") is None
    assert address(NCCL_RAS_ADDR="localhost:28028", NCCL_RAS_ENABLE="0") is None


@pytest.mark.parametrize("text", ["", "HTTP/1.1 400 Bad Request\r\n\r\n", "\0" * 5000, "Rank 1 -- GPU 1"])
def test_what_is_no_status_is_not_believed(text: str) -> None:
    with served(says(text.encode())) as port:
        assert nccl_ras.query_ras(("127.0.0.1", port), limit_s=LIMIT_S) is None


def test_http_wants_a_whole_answer() -> None:
    def ask(answer: bytes) -> bytes | None:
        with served(says(answer)) as port:
            return http_body("127.0.0.1", port, "GET", "/", limit_s=LIMIT_S, most=1000)

    assert ask(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc") == b"abc"
    assert ask(b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nabc") is None
    assert ask(b"HTTP/1.1 500 Oh\r\n\r\nabc") is None
    assert ask(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999\r\n\r\n" + b"a" * 5000) is None
    assert ask(b"garbage") is None


def test_a_front_page_cannot_send_us_elsewhere(tmp_path: Path) -> None:
    """It names a port that no process of the job listens on: nobody is asked there."""
    asked: list[bytes] = []

    def note(line: socket.socket) -> None:
        asked.append(line.recv(4096))

    with served(note) as elsewhere:
        page = f"rank0: b'http://192.0.2.1:{elsewhere}'\n".encode()
        assert debug_server.parse_rank_ports(page) == {0: elsewhere}
        with served(says(b"HTTP/1.0 200 OK\r\n\r\n" + page)) as front:
            stranger = rank_here(tmp_path)
            stranger = LiveRank(
                Process(1, 0, "S", 0, 0, ("python",), {}), 0, 2, 0, 0, None, stranger.job
            )  # the rank is another process than the one that listens
            assert debug_server.ask_debug_server([stranger], [os.getpid()], limit_s=LIMIT_S, port=front) == {}
    assert asked == []


def test_servers_of_the_rank_itself_are_asked(tmp_path: Path) -> None:
    dump = b'{"version": "2.10", "pg_status": {}, "pg_config": {}, "entries": [' + b" " * 100 + b"]}"

    def worker(line: socket.socket) -> None:
        asked = line.recv(4096)
        known = b"fr_trace_json" in asked or b"dump_traceback" in asked
        line.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + dump if known else b"HTTP/1.0 404 no\r\n\r\n")

    with served(worker) as own:
        page = f"rank0: b'http://host:{own}'\nrank1: b'http://host:99999'\n".encode()
        with served(says(b"HTTP/1.0 200 OK\r\n\r\n" + page)) as front:
            assert listening_ports([os.getpid()])[front] == os.getpid()
            found = debug_server.ask_debug_server([rank_here(tmp_path)], [os.getpid()], limit_s=LIMIT_S, port=front)
    assert found[0].dump == dump


def test_a_pipe_that_nobody_reads_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ask0.pipe")
    rank = rank_here(tmp_path, TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / "ask"))
    assert recorder_files.trigger_dump(rank) is False  # an ordinary open would wait for ever


def test_a_pipe_that_is_full_is_passed_over(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ask0.pipe")
    reader = os.open(tmp_path / "ask0.pipe", os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(tmp_path / "ask0.pipe", os.O_WRONLY | os.O_NONBLOCK)
    try:
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        rank = rank_here(tmp_path, TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / "ask"))
        assert recorder_files.trigger_dump(rank) is False
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("kind", ["file", "link", "folder", "nothing"])
def test_only_a_pipe_is_written_to(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "ask0.pipe", tmp_path / "precious"
    other.write_bytes(b"keep me")
    {
        "file": lambda: path.write_bytes(b"keep me"),
        "link": lambda: path.symlink_to(other),
        "folder": path.mkdir,
        "nothing": lambda: None,
    }[kind]()
    assert not recorder_files.trigger_dump(rank_here(tmp_path, TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / "ask")))
    assert other.read_bytes() == b"keep me"
    assert not path.is_file() or path.read_bytes() == b"keep me"


def test_a_rank_that_reads_its_pipe_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ask0.pipe")
    rank = rank_here(
        tmp_path,
        TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(tmp_path / "ask"),
        TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "dump_"),
    )
    reader = os.open(tmp_path / "ask0.pipe", os.O_RDONLY | os.O_NONBLOCK)

    def answer() -> None:
        while not _read(reader):
            time.sleep(0.02)
        (tmp_path / "dump_0").write_bytes(b"a dump")

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    since_s = time.time()
    assert recorder_files.trigger_dump(rank) is True
    assert recorder_files.wait_for_dumps([rank], since_s, limit_s=LIMIT_S) == {0}
    thread.join(timeout=LIMIT_S)
    os.close(reader)
    kept = recorder_files.newest_dump(rank, since_s=since_s)
    assert kept is not None
    assert recorder_files.copy_dump(kept, tmp_path / "bundle" / "dumps" / "rank_0")
    assert (tmp_path / "bundle" / "dumps" / "rank_0").read_bytes() == b"a dump"


def test_a_dump_of_an_earlier_job_is_not_taken(tmp_path: Path) -> None:
    old = tmp_path / "dump_0"
    old.write_bytes(b"yesterday")
    os.utime(old, (1.0, 1.0))
    assert recorder_files.newest_dump(rank_here(tmp_path, TORCH_FR_DUMP_TEMP_FILE=str(tmp_path / "dump_"))) is None


def _read(descriptor: int) -> bytes:
    with contextlib.suppress(BlockingIOError):
        return os.read(descriptor, 10)
    return b""


EMPTY = b'{"comm_lib_version":"","nccl_comm_state":{},"pg_config":{},"pg_status":{},"version":"2.10"}'
FULL = b'{"version":"2.10","entries":[{"collective_seq_id":1}]}'


@pytest.mark.parametrize(
    ("given", "dump", "empty"),
    [
        ({"fr_trace_json": EMPTY, "dump_nccl_trace_json": FULL}, FULL, False),
        ({"fr_trace_json": EMPTY, "dump_nccl_trace_json": EMPTY}, None, True),
        ({"dump_nccl_trace_pickle": FULL}, FULL, False),
        ({}, None, False),
    ],
)
def test_a_dump_without_calls_is_none_and_is_told(
    given: dict[str, bytes], dump: bytes | None, empty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = b"torch.distributed.debug rank0: http://vm:4001"
    answers = {f"/handler/{name}": body for name, body in given.items()} | {"/tcpstore": page}
    monkeypatch.setattr(debug_server, "listening_ports", lambda _: {debug_server.PORT: 7, 4001: os.getpid()})
    monkeypatch.setattr(debug_server, "http_body", lambda _h, _p, _m, path, **_: answers.get(path))
    rank = LiveRank(Process(os.getpid(), 1, "S", 0, 0, ("python",), {}), 0, 1, 0, 0, None, ("",))

    assert debug_server.ask_debug_server([rank], [7], limit_s=1.0) == {
        0: debug_server.DebugServerAnswer(dump, None, empty)
    }
