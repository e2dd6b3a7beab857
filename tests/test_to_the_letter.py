"""What a verdict quotes stands so in the log, at that line; what it says of the job and of timeouts is in evidence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.facts.endings.crashes import primary_crashes
from unhang.facts.logs.log_statements import timeout_events
from unhang.facts.model import Facts
from unhang.findings import Evidence, Status, Verdict
from unhang.sentences import message_of_line, shortened

ROOT = Path(__file__).resolve().parents[1]
BATCHES = ROOT / "benchmarks" / "batches"
JOINED = 12
"""Lines of a paste that was broken by its window, which one quoted line goes over."""
_STACK = re.compile(r"(?P<function>[\w.<>]+) \(\S+?:\d+\)(?: < |$)")
_WAITS = re.compile(r"tim(?:ed|e) ?out|wait|limit|loading", re.IGNORECASE)


def logs() -> list[Path]:
    cases = [path for path in sorted((ROOT / "tests" / "cases").glob("*/*/input")) if any(path.rglob("*.log"))]
    for batch in sorted(BATCHES.iterdir()):
        rows = (batch / "cases.jsonl").read_text(encoding="utf-8").splitlines()
        cases += [batch / json.loads(row)["log"] for row in rows]
    return cases


@cache
def lines_of(path: str) -> list[str]:
    return Path(path).read_bytes().decode("utf-8", "replace").replace("\r\n", "\n").split("\n")


def letters(text: str) -> str:
    """``text`` without blanks and colours: pastes lose and gain them."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\s", "", text)


def wrong_lines(evidence: Evidence) -> Iterator[str]:
    """What does not stand where ``evidence`` says."""
    line = evidence.source.line or 0
    lines = lines_of(evidence.source.path)
    there = letters("".join(lines[line - 1 : line - 1 + JOINED]))
    place = f"{evidence.source.path}:{line}: {evidence.text[:80]!r}"
    if (stack := _STACK.match(evidence.text)) is not None:
        if stack["function"].rsplit(".", 1)[-1] not in "".join(lines[line - 1 : line + 400]):
            yield f"{place}: no such stack"
        return
    quoted = evidence.text.split("\n")[0]
    begins = there.find(letters(quoted.rstrip("…")))
    if begins < 0 or begins >= len(letters(lines[line - 1])):
        yield f"{place} is another line: {lines[line - 1][:80]!r}"
    elif quoted.endswith("…") and not any(
        re.search(re.escape(quoted.rstrip("…").rsplit(None, 1)[-1]) + r"(?!\w)", raw)
        for raw in lines[line - 1 : line + JOINED]
    ):
        yield f"{place} is cut inside a word"


def cut_words(verdict: Verdict, facts: Facts) -> Iterator[str]:
    """Sentences that end inside a word of the log."""
    whole = "\n".join("\n".join(lines_of(log.source.path)) for log in facts.logs)
    for finding in verdict.findings:
        for said in map(str, (finding.summary, *finding.because)):
            tail = said[-30:]
            cut = (
                [whole[at.end() : at.end() + 1] for at in re.finditer(re.escape(tail), whole)] if len(said) > 60 else []
            )
            if cut and tail[-1:].isalnum() and all(after.isalnum() for after in cut):
                yield f"{said[-80:]!r} is cut inside a word"


def wrong_words(verdict: Verdict, facts: Facts) -> Iterator[str]:
    """A hang where a process failed and its launcher ended the rest; a remedy for timeouts that nobody told of."""
    ended = any(e.exit_code not in (0, None) for e in facts.exits)
    if verdict.status is Status.HANG and primary_crashes(facts) and ended and not timeout_events(facts):
        yield "hang, although a process failed and the job ended"
    first = verdict.findings[0] if verdict.findings else None
    if first is None or timeout_events(facts) or verdict.status is Status.HANG:
        return
    shown = " ".join(map(str, (first.summary, *first.because, *(item.text for item in first.evidence))))
    for remedy in first.remedies:
        said = re.sub(r"\b[A-Z]+_[A-Z_]+\b", "", f"{remedy.title} {remedy.change}")  # a variable may be called so
        if "timeout" in said.lower() and _WAITS.search(shown) is None:
            yield f"{remedy.title} speaks of timeouts"


def test_verdicts_are_right_to_the_letter() -> None:
    wrong: list[str] = []
    quoted = 0
    for path in logs():
        facts = build_facts(read_evidence([str(path)]))
        verdict = diagnose(facts)
        of_logs = {log.source.path for log in facts.logs if Path(log.source.path).is_file()}
        for finding in verdict.findings:
            for item in finding.evidence:
                if item.source.path in of_logs and item.source.line:
                    quoted += 1
                    wrong += wrong_lines(item)
        name = path.relative_to(ROOT).as_posix()
        if all(Path(log.source.path).is_file() for log in facts.logs):
            wrong += [f"{name}: {told}" for told in cut_words(verdict, facts)]
        wrong += [f"{name}: {told}" for told in wrong_words(verdict, facts)]

    assert quoted > 500
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "most", "shown"),
    [
        ("short", 10, "short"),
        ("the end of a word", 17, "the end of a word"),
        ("the end of a word", 12, "the end of…"),
        ("the end of a word", 10, "the end…"),
        ("oneverylongword", 6, "oneve…"),
    ],
)
def test_texts_are_cut_at_the_end_of_a_word(text: str, most: int, shown: str) -> None:
    assert shortened(text, most) == shown
    assert len(shown) <= most or shown == text


@pytest.mark.parametrize(
    ("line", "most", "shown"),
    [
        (
            "[rank0]:[E1128 05:40:10.891765 ProcessGroupNCCL.cpp:1515] [PG 0 (default_pg) Rank 0] Process group ended",
            50,
            "[rank0] … Process group ended",
        ),
        (
            "[E ProcessGroupNCCL.cpp:916] [Rank 1] NCCL watchdog thread terminated",
            34,
            "[Rank 1] … NCCL watchdog thread…",
        ),
        (
            "I1126 07:00:46.792000 4956 torch/distributed/elastic/agent/server/api.py:932] [default] worker ended",
            60,
            "… worker ended",
        ),
        (
            "ERROR 07-15 12:45:33 [multiproc_executor.py:527] EJ0002: The network port is down.",
            50,
            "… EJ0002: The network port is down.",
        ),
    ],
)
def test_of_a_long_line_the_message_is_shown(line: str, most: int, shown: str) -> None:
    assert message_of_line(line, most) == shown
    assert message_of_line(line, len(line)) == line
