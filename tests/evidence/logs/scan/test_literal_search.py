"""The first pass over a log: every literal is found wherever it lies, by our own filter and by the compiled one."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unhang.evidence.logs import read_log
from unhang.evidence.logs.scan import literal_positions
from unhang.evidence.logs.scan.literal_filters import LiteralSearch, PlainSearch, compile_filter
from unhang.evidence.logs.scan.literal_positions import LiteralFinder, Literals
from unhang.evidence.logs.scan.literal_search import SHORTEST, LiteralFilter
from unhang.knowledge.messages import load_messages

STEPS = b"".join(b"[rank%d]: step %d/9000 loss 2.5\n" % (rank, step) for step in range(40) for rank in range(512))
ANCHORS = sorted({anchor.encode("ascii") for row in load_messages() for anchor in row.anchors})
LITERALS = Literals([(anchor, anchor) for anchor in ANCHORS])
OWN = LITERALS.fresh()
HYPERSCAN = compile_filter(OWN.anchors)
needs_hyperscan = pytest.mark.skipif(HYPERSCAN is None, reason="hyperscan has no wheel for this machine")
CASES = Path(__file__).parents[3] / "cases"
FILTERS = ["plain", "own", pytest.param("compiled", marks=needs_hyperscan)]


def filter_of(kind: str, *anchors: bytes) -> LiteralSearch[bytes]:
    own = LiteralFilter([(anchor, (anchor,)) for anchor in anchors or ANCHORS])
    if kind == "plain":
        return PlainSearch(list(own.anchors))
    found = own if kind == "own" else compile_filter(own.anchors)
    assert found is not None
    return found


def places_by_hand(data: bytes) -> list[tuple[int, bytes]]:
    found = []
    for anchor in ANCHORS:
        at = data.find(anchor)
        while at >= 0:
            found.append((at, anchor))
            at = data.find(anchor, at + 1)
    return sorted(found)


@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("beside", ["进程", "：", "é", "🙂"])
@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_a_short_literal_is_found_beside_a_letter_of_any_alphabet(kind: str, beside: str, encoding: str) -> None:
    finder = filter_of(kind)
    for shift in range(4):
        for anchor in (one for one in ANCHORS if len(one) < 7):
            data = b"." * shift + beside.encode(encoding) + anchor + beside.encode(encoding) + b"\n"
            assert anchor in [tag for _, tag in finder.places(data)], (anchor, shift)


@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("shift", range(8))
def test_every_literal_is_found_wherever_it_lies(shift: int, kind: str) -> None:
    finder = filter_of(kind)
    data = b"." * shift + b"\n...".join(ANCHORS)
    found = finder.places(data)
    for anchor in ANCHORS:
        assert any(tag == anchor and data.startswith(anchor, at) for at, tag in found), anchor
    assert found == sorted(found, key=lambda place: place[0])
    assert [tag for _, tag in finder.places(ANCHORS[shift])].count(ANCHORS[shift]) == 1


@pytest.mark.parametrize("kind", FILTERS)
def test_a_literal_is_found_at_the_very_end_and_after_tuning(kind: str) -> None:
    finder = filter_of(kind, b"Killed", b"MiB |", b"Watchdog caught")
    for _ in range(3):
        assert finder.places(STEPS + b"Killed") == [(len(STEPS), b"Killed")]
        assert finder.places(STEPS + b"9MiB |") == [(len(STEPS) + 1, b"MiB |")]
        assert finder.places(b"Killed" + STEPS) == [(0, b"Killed")]


@pytest.mark.parametrize("kind", FILTERS)
def test_of_quiet_literals_the_first_is_given_and_all_others_beside_them(kind: str) -> None:
    finder = filter_of(kind, b"via P2P/", b"Watchdog caught")
    line = b"0 -> 1 via P2P/CUMEM\n"
    data = line * 60_000 + b"Watchdog caught\n" + line + b"Watchdog caught\n"
    finder.quiet(b"via P2P/")
    for _ in range(4):  # the compiled filter has compiled anew by then
        first, *others = finder.places(data)
        assert first == (7, b"via P2P/")
        assert others == [(len(line) * 60_000, b"Watchdog caught"), (len(line) * 60_001 + 16, b"Watchdog caught")]


@needs_hyperscan
@settings(max_examples=60)
@given(st.lists(st.one_of(st.sampled_from(ANCHORS), st.binary(max_size=6), st.sampled_from([b"\n", b" ", b"NCCL"]))))
def test_both_filters_find_what_stands_there(parts: list[bytes]) -> None:
    data = b"".join(parts)
    assert HYPERSCAN is not None
    assert HYPERSCAN.places(data) == sorted(places_by_hand(data))
    printable = bytes(byte if byte in b"\t\n\r" or 32 <= byte < 127 else 46 for byte in data)
    assert (
        OWN.fresh().places(printable) == HYPERSCAN.places(printable) == PlainSearch(LITERALS.anchors).places(printable)
    )


@needs_hyperscan
def test_both_filters_find_the_same_in_the_logs_of_our_cases() -> None:
    assert HYPERSCAN is not None
    logs = [path for path in sorted(CASES.rglob("input/**/*")) if path.suffix in (".log", ".txt", ".out", ".err")]
    assert len(logs) > 100
    for path in logs:
        data = path.read_bytes()
        assert OWN.fresh().places(data) == HYPERSCAN.places(data), path


@needs_hyperscan
def test_a_large_log_reads_the_same_with_either_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    nccl = b"".join(
        b"h1:%d:9 [0] NCCL INFO Channel %02d/0 : 0[0] -> 1[1] via P2P/IPC\n" % (n, n % 32) for n in range(9000)
    )
    crash = b'Traceback (most recent call last):\n  File "b.py", line 9, in g\n    g()\nKeyError: last\n'
    log = nccl * 2 + STEPS * 3 + nccl * 2 + crash + STEPS
    readings = []
    for compile_from in (0, 1 << 40):
        monkeypatch.setattr(literal_positions, "COMPILE_FROM", compile_from)
        readings.append(read_log(io.BytesIO(log), source="job.log"))
    with_compiled, with_own = readings
    assert with_compiled.lines == with_own.lines == log.count(b"\n")
    assert with_compiled.tracebacks == with_own.tracebacks != ()
    assert with_compiled.events == with_own.events != ()
    assert with_compiled.progress == with_own.progress


@needs_hyperscan
def test_only_large_logs_are_worth_compiling_for() -> None:
    finder = LiteralFinder(LITERALS)
    finder.quiet(b"Killed")
    finder.places(STEPS)
    assert not finder.is_compiled
    for _ in range(literal_positions.COMPILE_FROM // len(STEPS) + 1):
        finder.places(STEPS)
    assert finder.is_compiled
    assert finder.places(b"Killed Killed SIGTERM") == [(0, b"Killed"), (14, b"SIGTERM")]


def test_where_hyperscan_cannot_be_had_our_own_filter_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unhang.evidence.logs.scan.literal_filters._hyperscan", lambda: None)
    finder = LiteralFinder(LITERALS, compile_from=0)
    assert finder.places(STEPS + b"Killed") == [(len(STEPS), b"Killed")]
    assert not finder.is_compiled


def test_literals_are_long_enough_to_be_looked_for() -> None:
    assert all(len(anchor) >= SHORTEST for anchor in ANCHORS)
    with pytest.raises(ValueError, match="fewer than"):
        LiteralFilter([(b"RAS ", (1,))])
