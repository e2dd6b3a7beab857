"""Lines of no known kind that tell of a failure are kept: each once, not too many, with line and rank."""

from __future__ import annotations

from io import BytesIO

from unhang.evidence.items import LogReading
from unhang.evidence.logs import read_log
from unhang.evidence.logs.ordinary_lines import MAX_FAILURES


def reading(log: str) -> LogReading:
    return read_log(BytesIO(log.encode()), source="job.log")


def test_a_complaint_is_kept_with_its_line_and_rank() -> None:
    (kept,) = reading("all fine\n[rank3]: ring: No route to host n7\n").unrecognized_failures

    assert (kept.source.line, kept.rank, kept.kind) == (2, 3, "")
    assert "No route to host" in kept.text


def test_lines_that_differ_in_numbers_alone_are_one() -> None:
    assert len(reading("".join(f"ring {n}: No route to host\n" for n in range(50))).unrecognized_failures) == 1


def test_of_very_many_the_first_are_kept() -> None:
    names = ("".join(chr(97 + n // 26**place % 26) for place in range(3)) for n in range(MAX_FAILURES + 1))
    kept = reading("".join(f"ring {name}: No route to host\n" for name in names)).unrecognized_failures

    assert len(kept) == MAX_FAILURES
    assert kept[0].source.line == 1


def test_ordinary_lines_and_known_messages_are_none() -> None:
    known = "n1:1:2 [0] init.cc:7 NCCL WARN Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000"

    assert reading(f"step 3/10 loss 2.1\n{known}\n").unrecognized_failures == ()
