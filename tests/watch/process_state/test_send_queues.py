"""Where what a process sends piles up is seen from its connections, and nothing else of them is taken for it."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

from unhang.watch.process_state.sockets import MIN_TIMES, SendQueues

_HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
_ROW = "   0: {own}:9C40 {peer}:0050 {state} {unsent:08X}:00000000 00:00000000 00000000  1000        0 {inode} 1\n"
FIRST, SECOND, THIRD = "0100000A", "0200000A", "0300000A"  # 10.0.0.1 and so on, as a machine of our byte order prints


def proc_of(place: Path, rows: list[dict[str, object]]) -> Path:
    fds = place / "7" / "fd"
    fds.mkdir(parents=True, exist_ok=True)
    (place / "7" / "net").mkdir(exist_ok=True)
    for inode in (1, 2):
        if not (fds / str(inode)).is_symlink():
            (fds / str(inode)).symlink_to(f"socket:[{inode}]")
    (place / "7" / "net" / "tcp").write_text(_HEAD + "".join(_ROW.format(**row) for row in rows))
    return place


def row(own: str, peer: str, unsent: int, *, state: str = "01", inode: int = 1) -> dict[str, object]:
    return {"own": own, "peer": peer, "unsent": unsent, "state": state, "inode": inode}


def test_only_what_stands_there_most_of_the_time_counts(tmp_path: Path) -> None:
    queues = SendQueues({3: 7}, proc=tmp_path)
    for turn in range(2 * MIN_TIMES):
        proc_of(tmp_path, [row(FIRST, SECOND, 9000), row(FIRST, THIRD, 9000 if turn % 3 == 0 else 0, inode=2)])
        queues.sample()

    assert queues.piled_up(3) == ["10.0.0.1>10.0.0.2"]
    assert queues.addresses(3) == ["10.0.0.1"]


def test_other_processes_unfinished_connections_and_the_machine_itself_do_not_count(tmp_path: Path) -> None:
    rows = [row(FIRST, SECOND, 9, inode=99), row(FIRST, SECOND, 9, state="02"), row(FIRST, FIRST, 9, inode=2)]
    queues = SendQueues({3: 7, 4: 8}, proc=proc_of(tmp_path, rows))
    for _ in range(MIN_TIMES):
        queues.sample()

    assert [queues.piled_up(rank) for rank in (3, 4, 5)] == [[], [], []]


def test_a_few_looks_tell_nothing(tmp_path: Path) -> None:
    queues = SendQueues({3: 7}, proc=proc_of(tmp_path, [row(FIRST, SECOND, 9)]))
    queues.sample()

    assert queues.piled_up(3) == []


def test_a_reader_that_does_not_read_is_seen_in_the_kernels_own_table() -> None:
    with closing(socket.create_server(("127.0.0.2", 0))) as server, closing(socket.socket()) as client:
        client.bind(("127.0.0.3", 0))
        client.connect(server.getsockname())
        client.setblocking(False)
        sent = 1
        while sent:
            try:
                sent = client.send(b"x" * 65536)
            except BlockingIOError:
                break
        queues = SendQueues({0: os.getpid()})
        for _ in range(MIN_TIMES):
            queues.sample()

    assert "127.0.0.3>127.0.0.2" in queues.piled_up(0)
