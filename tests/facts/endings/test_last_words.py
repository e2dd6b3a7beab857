"""What is looked for in a log in which nothing is recognised."""

from __future__ import annotations

from unhang.evidence.evidence_set import EvidenceSet
from unhang.evidence.items import LastLine, LogEnding, LogReading, Progress
from unhang.facts.build import build_facts
from unhang.facts.endings.stated_failures import LastWords, last_words
from unhang.findings import Source

FAILED = "ERROR 12-29 03:16:20 [core.py:780] EngineCore failed to start."
SERVICE = "systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'."
WARNED = "WARNING:root:Failed to reach the tracking server, retrying"


def line(number: int, text: str, rank: int | None = None, time_s: float | None = None) -> LastLine:
    return LastLine(Source("job.log", number), rank, text, time_s)


def words_of(
    *said: LastLine, last: tuple[LastLine, ...] = (), step_at: int | None = None, ending: LogEnding | None = None
) -> LastWords:
    step = Progress(Source("job.log", 1), None, "step", 1, 9, None, None, None, step_at or 0)
    log = LogReading(
        Source("job.log"), None, (), (), (), (step,) if step_at is not None else (), last, 99, (),
        said=said, endings=(ending,) if ending is not None else (),
    )  # fmt: skip
    return last_words(build_facts(EvidenceSet(logs=[log])))


def texts(words: LastWords) -> list[str]:
    return [quote.text for quote in words.errors]


def test_errors_come_the_latest_first_and_of_each_rank_the_last() -> None:
    assert texts(words_of(line(1, FAILED), line(2, SERVICE))) == [SERVICE, FAILED]
    assert texts(words_of(line(1, FAILED, 3), line(2, SERVICE, 3), line(3, FAILED, 1))) == [FAILED, SERVICE]


def test_a_warning_is_no_error() -> None:
    assert texts(words_of(line(1, WARNED))) == []


def test_what_the_job_outlived_is_none() -> None:
    ended = LogEnding("job", source=Source("job.log", 9), text="8841 train COMPLETED 0:0")

    assert texts(words_of(line(5, FAILED), step_at=7)) == []
    assert texts(words_of(line(5, FAILED), step_at=4)) == [FAILED]
    assert texts(words_of(line(5, FAILED), ending=ended)) == []


def test_who_fell_silent_first() -> None:
    words = words_of(last=(line(8, "step 40", 1, 100.0), line(9, "step 41", 0, 130.0)))

    assert (words.silent, words.since_s, words.end_s) == (1, 100.0, 130.0)
    assert [quote.text for quote in words.last] == ["step 41"]


def test_nobody_fell_silent_first_where_all_end_together_or_one_speaks() -> None:
    assert words_of(last=(line(8, "step 41", 1, 130.0), line(9, "step 41", 0, 130.0))).silent is None
    assert words_of(last=(line(8, "step 40", None, 100.0), line(9, "step 41", 0, 130.0))).silent is None
