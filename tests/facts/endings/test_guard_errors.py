"""The line of JSON at the end of a guard's message: read as it was written, and believed only where it belongs."""

from __future__ import annotations

import io
import json
import textwrap
from pathlib import Path

import pytest

from unhang.evidence.items import LogReading
from unhang.evidence.logs import read_log
from unhang.facts.endings.guard_errors import guard_errors
from unhang.secrets import without_secrets
from unhang.wire.guard_statement import MARK, MAX_LETTERS, MAX_LISTED, GuardErrorKind, GuardStatement
from unhang.wire.record_views import CodeLine

CASES = Path(__file__).resolve().parents[2] / "cases"
HEAD = 'Traceback (most recent call last):\n  File "/app/train.py", line 15, in main\n    unhang.together("save")\n'
ENGLISH = "together('save') at /app/train.py:15: rank 1 did not come within 3 s (rank 0 did)."
SAID = GuardStatement(
    "missing", "together('save')", (1,), came=(0,), branch=CodeLine("/app/train.py", 14), test="if rank == 0"
)
IN_ENGLISH = GuardStatement("missing", "together('save')", (1,), came=(0,))


def read(text: str) -> LogReading:
    return read_log(io.BytesIO(text.encode()), source="job.log")


def said(text: str) -> list[GuardStatement]:
    return [error.said for error in guard_errors(read(text).tracebacks)]


def printed(line: str, *, between: str = "", words: str = ENGLISH, name: str = "RanksMissing") -> str:
    return f"{HEAD}unhang.errors.{name}: {words}\n{between}{line}\n"


def of_rank_0(text: str) -> str:
    return textwrap.indent(text, "[rank0]: ", lambda _: True)


@pytest.mark.parametrize(
    "statement",
    [
        SAID,
        GuardStatement("missing", "the end of together('it\\'s')", tuple(range(0, 500, 7)), came=(1, 2, 3)),
        GuardStatement("missing", "even_batches", (3,), partner_died=True),
    ],
)
def test_what_is_written_is_read(statement: GuardStatement) -> None:
    assert said(printed(statement.line())) == [statement]
    assert said(of_rank_0(printed(statement.line()))) == [statement]


def test_the_message_does_not_hold_it() -> None:
    (traceback,) = read(printed(SAID.line())).tracebacks

    assert traceback.message == ENGLISH


def test_many_ranks_are_ranges() -> None:
    few, many = tuple(range(MAX_LISTED)), tuple(range(2, 9000))

    assert '"ranks":[0,1,' in GuardStatement("missing", "", few).line()
    assert '"ranks":"2-8999"' in GuardStatement("missing", "", many).line()
    assert said(printed(GuardStatement("missing", "save", many).line()))[0].ranks == many


@pytest.mark.parametrize("kind", ["missing", "differ", "slow"])
def test_the_line_is_short_and_plain_whatever_the_program_says(kind: GuardErrorKind) -> None:
    line = GuardStatement(kind, "x" * 9000, tuple(range(0, 99_999, 2)), detail="\x1b[31m\n错\ud800" * 9000).line()

    assert len(line) < 10_000
    assert line.isascii()
    assert line.isprintable()


def test_long_stacks_may_stand_before_it() -> None:
    stacks = "".join(f'  File "/app/train.py", line {n}, in f{n}\n    f{n + 1}()\n' for n in range(120))
    (error,) = said(of_rank_0(printed(SAID.line(), between=f"Rank 1 never came to a guard; it is now here:\n{stacks}")))

    assert error == SAID


def test_a_blank_line_in_the_words_of_another_rank_may_stand_before_it() -> None:
    failed = GuardStatement("failed", "together('save')", (1,), detail="RuntimeError: CUDA error")
    words = "together('save'): rank 1 failed inside: RuntimeError: CUDA error"

    assert said(of_rank_0(printed(failed.line(), words=words, between="\nFor debugging\n\n", name="RankFailed"))) == [
        failed
    ]


@pytest.mark.parametrize("width", [30, 40, 79, 80, 120])
@pytest.mark.parametrize("prefix", ["", "[rank0]: "])
def test_a_terminal_may_break_it(width: int, prefix: str) -> None:
    line = f"{prefix}{SAID.line()}"
    pieces = "\n".join(line[start : start + width] for start in range(0, len(line), width))
    before = textwrap.indent(printed("").rstrip(), prefix)

    assert said(f"{before}\n{pieces}\n{prefix}step 3 of 9\n") == [SAID]


def test_it_may_hold_more_than_this_version_knows() -> None:
    line = MARK + json.dumps({"kind": "missing", "ranks": [1], "came": [0], "what": "x", "later": {"a": [1]}, "at": 3})

    assert said(printed(line)) == [GuardStatement("missing", "x", (1,), came=(0,))]


@pytest.mark.parametrize(
    "line",
    [
        "",
        SAID.line()[:-1],
        SAID.line()[:60],
        SAID.line().replace("unhang.guard/1", "unhang.guard/2"),
        f"see {SAID.line()}",
        SAID.line().replace(MARK, f"{MARK}["),
        MARK + '{"kind":"missing"}',
        MARK + '{"kind":"missing","ranks":[]}',
        MARK + '{"kind":"missing","ranks":[-1,true,null,"3",1e9]}',
        MARK + '{"kind":"missing","ranks":{"1":1}}',
        MARK + '{"kind":["missing"],"ranks":[1]}',
        MARK + '{"kind":"crashed","ranks":[1]}',
        MARK + '{"kind":"failed","ranks":[5]}',
        MARK + '{"a":' + "[" * 5000,
    ],
)
def test_where_it_is_torn_or_does_not_fit_the_sentences_are_read(line: str) -> None:
    assert said(printed(line)) == [IN_ENGLISH]


def test_what_a_paste_joined_to_the_sentences_is_no_part_of_the_reason() -> None:
    words = "together('save'): rank 1 failed inside: OSError: disk full"
    failed = GuardStatement("failed", "together('save')", (1,), detail="OSError: disk full")

    assert said(printed("", words=f"{words} {failed.line()}", name="RankFailed")) == [failed]


@pytest.mark.parametrize(
    "text",
    [
        SAID.line(),
        f"{HEAD}nvidia_resiliency_ext.errors.RankFailed: rank 1 failed: OSError\n{SAID.line()}",
        f"{HEAD}RuntimeError: a job before this one said\n{SAID.line()}",
        f"{HEAD}my.unhang.errors.RanksMissing: {ENGLISH}\n{SAID.line()}",
        f"{of_rank_0(printed('', name='StoreLost'))}[rank1]: {SAID.line()}",
    ],
)
def test_the_same_line_elsewhere_says_nothing(text: str) -> None:
    assert said(text) == []


def test_each_rank_has_its_own() -> None:
    one, other = (GuardStatement("missing", "save", (rank,)) for rank in (2, 3))
    lines = zip(printed(one.line()).splitlines(), printed(other.line()).splitlines(), strict=True)
    mixed = "".join(f"[rank0]: {left}\n[rank1]: {right}\n" for left, right in lines)

    assert said(mixed) == [one, other]


def test_what_follows_it_is_no_part_of_the_message() -> None:
    reading = read(f"{printed(SAID.line())}tokenised 7 shards\n")

    assert reading.tracebacks[0].statement == SAID.line()
    assert reading.tracebacks[0].message == ENGLISH


@pytest.mark.parametrize(
    "detail",
    [
        "OSError: password=Tz81kqhunter2x99",
        "HTTPError: 401 for https://ada:Tz81kqhunter2x99@hub.example/x",
        'config: {"api_key": "Tz81kqhunter2x99"} on rank 0, {} on rank 1',
        "config['env']: 'HF_TOKEN=Tz81kqhunter2x99' on rank 0, '' on rank 1",
        "ValueError: refused\nAuthorization: Bearer Tz81kqhunter2x99",
    ],
)
def test_secrets_are_removed_from_it_as_from_the_sentences_and_it_stays_whole(detail: str) -> None:
    line = without_secrets(GuardStatement("failed", "save", (1,), detail=detail).line())
    (error,) = said(printed(line, name="RankFailed"))

    assert "Tz81kq" not in line
    assert error.detail == " ".join(without_secrets(detail).split())


def test_half_a_secret_does_not_stay() -> None:
    detail = f"{'x' * (MAX_LETTERS - 20)} HF_TOKEN=Tz81kqhunter2x99"

    assert "Tz81" not in GuardStatement("failed", "save", (1,), detail=detail).line()


@pytest.mark.parametrize("log", sorted(CASES.glob("*/*_log_*guard*/input/job.log")), ids=lambda log: log.parts[-3])
def test_the_cases_of_older_versions_have_no_such_line(log: Path) -> None:
    assert (MARK in log.read_text()) == ("with_a_line_of_json" in str(log))
