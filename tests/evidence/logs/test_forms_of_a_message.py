"""Prefixes, colours, carriage returns, encodings: the same message is found in whatever form it comes."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unhang.evidence.items import LogReading
from unhang.evidence.logs import looks_like_log, read_log

WATCHDOG = (
    "[E ProcessGroupNCCL.cpp:563] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, "
    "OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=600000) ran for 600066 milliseconds before timing out."
)
NEW = WATCHDOG.replace("[E ProcessGroupNCCL.cpp:563]", "[rank3]:[E1121 10:30:00.500000000 ProcessGroupNCCL.cpp:685]")
PIECES = [
    NEW.encode(),
    NEW.encode()[:90],
    b"Traceback (most recent call last):\n",
    b'  File "a.py", line 1, in f\n',
    b"ValueError: x",
    b"  exitcode  : -6 (pid: 264)",
    b" 50%|x| 1/2 [00:01<00:01, 1it/s]",
    b"srun: error: h1: tasks 1-99999999: Killed",
    b"2026-11-21T10:00:00Z ",
    "│ a.py:1 in f │".encode(),
    b"x" * 9_000,
]


def read(text: str | bytes, **known: object) -> LogReading:
    content = text.encode() if isinstance(text, str) else text
    return read_log(io.BytesIO(content), source="job.log", **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "line",
    [
        NEW,
        f"[default3]:{NEW}",
        f"3: {NEW}",
        f"  3: {NEW}",
        f"2026-11-21T10:30:00.123456789Z {NEW}",
        f"2026-11-21T10:30:00.123Z stderr F {NEW}",
        f"[pod/train-worker-1/pytorch] {NEW}",
        f"(RayTrainWorker pid=1092850, ip=10.19.5.33) {NEW}",
        f"[1,3]<stderr>:{NEW}",
        f"\x1b[31m{NEW}\x1b[0m",
        f"node-1:100:\x1b[1m{NEW}",
        f"step:  5%|5         | 1/20 [00:01<00:10,  1.9it/s]{NEW}",
        f"step:  5%|5         | 1/20 [00:01<00:10,  1.9it/s]\r{NEW}",
        f"> {NEW}",
        f"{NEW}\r",
    ],
)
def test_a_watchdog_line_is_found_behind_any_prefix(line: str) -> None:
    (event,) = [event for event in read(line + "\n").events if event.kind == "wd.timeout"]
    assert event.rank == 3
    assert event.source.line == 1
    assert event.values["position"] == 41
    assert event.values["limit_ms"] == 600_000
    assert event.values["torch_versions"] == ("2.8.0",)
    assert "\x1b" not in event.text
    assert "WorkNCCL(SeqNum=41" in event.text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig", "gb18030", "latin-1", "utf-32"])
def test_any_encoding_is_read(encoding: str) -> None:
    words = "训练开始 日志" if encoding != "latin-1" else "début"
    reading = read(f"{words}\r\n{NEW}\r\n{words}\r\n".encode(encoding))
    assert [(event.kind, event.source.line) for event in reading.events] == [("wd.timeout", 2)]
    assert words in [line.text for line in reading.last_lines]
    assert reading.lines == 3


def test_zero_bytes_and_a_missing_line_end_do_not_hide_a_message() -> None:
    reading = read(b"\0" * 5000 + b"start\n" + NEW.encode().replace(b"Watchdog", b"Watch\0dog"))
    assert [event.kind for event in reading.events] == ["wd.timeout"]
    assert reading.lines == 2


def test_a_rank_comes_from_the_line_before_the_file_name_before_the_label() -> None:
    assert read(NEW, rank=7).events[0].rank == 3
    assert read("[rank12]: hello\nstep 3\n", rank=7).ranks == (7, 12)
    assert read(WATCHDOG, rank=7).events[0].rank == 7
    assert read("5: step 1\n5: step 2\n").progress[0].rank == 5


def test_srun_labels_are_not_ranks_when_each_task_is_a_launcher() -> None:
    reading = read("1: [rank8]: hello\n1: [rank9]: hello\n0: [rank0]: hello\n1: step 12\n0: [rank1]: hi\n")
    assert reading.progress[0].rank is None
    assert reading.ranks == (0, 1, 8, 9)


def test_tee_labels_are_local_ranks_until_a_line_tells_the_global_one() -> None:
    one_node = read("[default3]:step 12\n")
    assert one_node.progress[0].rank == 3
    second_node = read("[default3]:[rank11]: hello\n[default3]:step 12\n")
    assert second_node.progress[0].rank == 11


def test_nccl_lines_get_their_rank_from_the_world_communicator() -> None:
    reading = read(
        "h1:100:200 [0] NCCL INFO comm 0x1 rank 4 nranks 8 cudaDev 0 busId 7000 commId 0xa - Init START\n"
        "h1:100:200 [0] NCCL INFO comm 0x2 rank 0 nranks 2 cudaDev 0 busId 7000 commId 0xb - Init START\n"
        "\nh1:100:205 [0] misc/socket.cc:59 NCCL WARN socketProgress: Connection closed by remote peer h2<60359>\n"
    )
    event = reading.events[-1]
    assert (event.kind, event.rank, event.host) == ("n.sock", 4, "h1")
    assert event.values["peer"] == "h2<60359>"


def test_a_group_rank_is_a_rank_only_in_the_default_group() -> None:
    tail = (
        "failure detected by watchdog at work sequence id: 7 PG status: last enqueued work: 9, last completed work: 6"
    )
    default = read(f"[E905 19:29:25.9 ProcessGroupNCCL.cpp:2252] [PG ID 0 PG GUID 0(default_pg) Rank 2] {tail}\n")
    assert default.events[0].rank == 2
    inner = read(f"[E905 19:29:25.9 ProcessGroupNCCL.cpp:2252] [PG ID 2 PG GUID 3(dp_group) Rank 2] {tail}\n")
    assert inner.events[0].rank is None
    assert inner.events[0].values["group_description"] == "dp_group"
    assert inner.events[0].values["group_rank"] == 2
    named = read(f"[rank10]:[E905 19:29:25.9 ProcessGroupNCCL.cpp:2252] [PG ID 2 PG GUID 3(dp) Rank 2] {tail}\n")
    assert named.events[0].rank == 10


def test_echoes_inside_exception_texts_are_folded() -> None:
    term = "NCCL watchdog thread terminated with exception: " + WATCHDOG.split("] ", 1)[1]
    reading = read(
        f"{WATCHDOG}\n[E ProcessGroupNCCL.cpp:1182] [Rank 3] {term}\n"
        f"terminate called after throwing an instance of 'std::runtime_error'\n  what():  [Rank 3] {term}\n"
    )
    assert [event.kind for event in reading.events].count("wd.timeout") == 1
    assert reading.folded["wd.timeout"] == 2


def test_only_the_exception_text_of_old_torch_still_gives_the_timeout() -> None:
    reading = read(
        "terminate called after throwing an instance of 'std::runtime_error'\n"
        "  what():  [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, "
        "Timeout(ms)=1800000) ran for 1802246 milliseconds before timing out.\n"
    )
    (event,) = [event for event in reading.events if event.kind == "wd.timeout"]
    assert (event.rank, event.values["operation"], event.values["inside"]) == (6, "all_reduce", "cxx.what")


def test_a_million_equal_lines_are_folded() -> None:
    reading = read((NEW + "\n") * 30_000)
    assert len(reading.events) == 1
    assert reading.folded["wd.timeout"] == 29_999
    assert reading.lines == 30_000


def test_a_line_of_any_length_is_bounded_and_named() -> None:
    reading = read(b"x" * 3_000_000 + b"\n" + NEW.encode() + b"\n")
    assert [(event.kind, event.source.line) for event in reading.events] == [("wd.timeout", 2)]
    assert "longer than 64 KiB" in reading.unread[0].reason


def test_a_message_deep_in_a_long_line_is_found() -> None:
    (event,) = read("[rank3]: " + "x" * 20_000 + NEW + "y" * 20_000).events
    assert (event.kind, event.rank, event.values["limit_ms"]) == ("wd.timeout", 3, 600_000)
    assert len(event.text) <= 2000


def test_large_logs_keep_their_messages_and_line_numbers() -> None:
    filler = "INFO:module:loading the next file of the data set\n" * 60_000
    reading = read(filler + NEW + "\n" + filler * 3 + "[rank5]: last words\n")
    assert [(event.kind, event.source.line) for event in reading.events] == [("wd.timeout", 60_001)]
    assert reading.lines == 240_002
    assert ("last words", 5) in [(line.text, line.rank) for line in reading.last_lines]


class _Breaking(io.RawIOBase):
    def __init__(self) -> None:
        self.left = [NEW.encode() + b"\n", OSError("Input/output error")]

    def read(self, size: int = -1) -> bytes:
        item = self.left.pop(0)
        if isinstance(item, bytes):
            return item
        raise item


def test_a_disk_that_fails_gives_what_was_read_and_the_reason() -> None:
    reading = read_log(_Breaking(), source="job.log")  # type: ignore[arg-type]
    assert [event.kind for event in reading.events] == ["wd.timeout"]
    assert "Input/output error" in reading.unread[0].reason


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (NEW.encode(), True),
        (b"2026-11-21 10:00:00 INFO started\n", True),
        ("训练 step: 12 loss 0.3\n".encode("gb18030"), True),
        (b"\x80\x04\x95\x00\x01\x02\x03\x04\x05\x06\x07" * 40, False),
        (b"", False),
    ],
)
def test_a_log_is_told_by_its_content(head: bytes, expected: bool) -> None:
    assert looks_like_log(head) is expected


@settings(max_examples=40)
@given(
    st.lists(st.sampled_from([*PIECES, b"\n", b"\r", b"\0", b"\xff\xfe", b"\xc4\xe3", b" ", b"[", b"3: "]), max_size=12)
)
def test_no_bytes_break_the_reader(pieces: list[bytes]) -> None:
    content = b"".join(pieces)
    reading = read(content)
    assert reading.lines >= 0
    assert isinstance(looks_like_log(content), bool)


@settings(max_examples=40)
@given(st.binary(max_size=200))
def test_no_noise_breaks_the_reader(content: bytes) -> None:
    assert read(content).events == ()


def test_a_flood_of_harmless_lines_hides_nothing() -> None:
    flood = "".join(f"h1:1:2 [0] NCCL INFO Using network {number}\n" for number in range(60_000))
    reading = read(flood + NEW + "\n" + flood)
    assert [event.source.line for event in reading.events if event.kind == "wd.timeout"] == [60_001]
    kept = sum(event.kind == "n.net" for event in reading.events)
    assert kept + reading.folded["n.net"] == 120_000


BAR = "Running tokenizer on dataset:  56%|#####6    | 11200/20000 [00:07<00:06, 1416.47 examples/s]"


@pytest.mark.parametrize(
    "end",
    ["[rank1]: ", "[default1]:[rank1]: ", ""],
)
def test_a_traceback_begins_behind_the_bar_of_another_process(end: str) -> None:
    lines = [
        f"\r{BAR}\r{BAR}{end}Traceback (most recent call last):",
        f'{end}  File "train.py", line 57, in get_dataset',
        f"{end}RuntimeError: Timed out waiting 8000ms for recv operation to complete",
        "",
    ]

    reading = read("\n".join(lines))

    (traceback,) = reading.tracebacks
    assert (traceback.frames[0].file, traceback.frames[0].line) == ("train.py", 57)
    assert (1 if end else None) == traceback.rank
    (bar,) = reading.progress
    assert (bar.rank, bar.last_step, bar.total) == (None, 11200, 20000)


def test_a_launchers_line_stands_behind_a_bar() -> None:
    told = "E1121 20:35:08.253000 24182 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: 1) "

    reading = read(f"{BAR}{told}local_rank: 1 (pid: 24189) of binary: /usr/bin/python3\n")

    assert [exit_.exit_code for exit_ in reading.exits] == [1]
    assert [bar.last_step for bar in reading.progress] == [11200]


@pytest.mark.parametrize(
    "stamp", ["2026-11-21 20:20:40 ", "2026-11-21T20:20:40.000100Z ", "Nov 21 20:20:40 n1 job[7]: "]
)
def test_a_collector_stamps_lines_and_not_what_a_bar_writes_over_them(stamp: str) -> None:
    bars = "".join(f"\r{BAR}" for _ in range(40))
    lines = [
        bars,
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "train.py", line 57, in f',
        "[rank1]: ValueError: x",
    ]

    reading = read("".join(f"{stamp}{line}\n" for line in lines))

    assert [(one.rank, one.exception) for one in reading.tracebacks] == [(1, "ValueError")]


def test_a_wait_told_of_again_and_again_is_one_event_however_long_it_lasted() -> None:
    again = "".join(
        f"[rank3]:[E1121 12:40:00.000000000 ProcessGroupNCCL.cpp:2106] [PG ID 0 PG GUID 0(default_pg) Rank 3] Process "
        f"group watchdog thread terminated with exception: [Rank 3] Watchdog caught collective operation timeout: "
        f"WorkNCCL(SeqNum=88172, OpType=ALLREDUCE, NumelIn=6, NumelOut=6, Timeout(ms)=600000) ran for "
        f"{600_000 + number} milliseconds before timing out.\n"
        for number in range(50)
    )
    kinds = [event.kind for event in read(again).events]

    assert kinds.count("wd.term") <= 4
    assert "wd.timeout" in kinds
