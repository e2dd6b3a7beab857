"""One bad line, file, fact, rule or section costs its own answer: it is named, caps certainty, and the rest answers."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from unhang.causes.detector import Detector, DetectorResult
from unhang.cli.output.verdict_output import exit_code
from unhang.diagnosis.detectors import ALL_DETECTORS
from unhang.diagnosis.diagnose import PASSES, Pass, diagnose
from unhang.diagnosis.ranking import join_rank_and_explain_away
from unhang.evidence.inputs import read_evidence
from unhang.evidence.logs.line_reader import LineReader
from unhang.facts import build
from unhang.facts.build import build_facts
from unhang.facts.model import Facts
from unhang.findings import Certainty, Status, Verdict
from unhang.knowledge.messages import load_messages
from unhang.report.html.page import to_html
from unhang.report.markdown import to_markdown
from unhang.report.text import to_text
from unhang.report.verdict_document import to_json

CASES = Path(__file__).parent / "cases"
CERTAIN = CASES / "rank-crashed" / "hit_segmentation_fault" / "input"
HUGE = "9" * 400
LONGER_THAN_PYTHON_READS = "9" * 5000


def verdict_of(path: Path) -> Verdict:
    return diagnose(build_facts(read_evidence([str(path)])))


def fail(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError("a mistake of ours")


def told(verdict: Verdict) -> str:
    gaps = [f"{gap.what}: {gap.because}" for gap in verdict.not_checked]
    return "\n".join([*gaps, *(f"{u.source.path}:{u.source.line}: {u.reason}" for u in verdict.unread)])


@pytest.fixture
def certain(tmp_path: Path) -> Path:
    shutil.copytree(CERTAIN, tmp_path / "input")
    return tmp_path / "input"


@pytest.mark.parametrize("number", [HUGE, LONGER_THAN_PYTHON_READS, "1e999", "-1", "٣٤"])
@pytest.mark.parametrize(
    "line",
    [
        "training:  50%|█████     | {0}/{0} [{0}:{0}<00:01, {0}it/s]",
        "step {0}/{0} time: {0}.{0}",
        "epoch {0} [{0}/{0}] step_time (ms): {0}.0",
        (
            "[rank{0}]:[E1122 10:00:00.000000 {0} ProcessGroupNCCL.cpp:{0}] [PG ID {0} PG GUID 0(default_pg) Rank {0}] "
            "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={0}, OpType=ALLREDUCE, NumelIn={0}, "
            "NumelOut={0}, Timeout(ms)={0}) ran for {0} milliseconds before timing out."
        ),
        "node1:{0}:{0} [{0}] NCCL INFO ncclCommInitRank comm 0x1 rank {0} nranks {0} cudaDev {0} - Init COMPLETE",
        "  exitcode  : {0} (pid: {0})",
        "  rank      : {0} (local_rank: {0})",
        (
            "W1122 10:00:00.000000 {0} torch/distributed/elastic/multiprocessing/api.py:897] Sending process {0} "
            "closing signal SIGTERM"
        ),
        '  File "train.py", line {0}, in main',
        "20{0}-13-41 25:61:61 all well",
        "(worker rank={0} pid={0}, ip=10.0.0.1) step {0}",
        "srun: error: n1: task {0}: Exited with exit code {0}",
        "RuntimeError: [{0}] is setting up NCCL communicator; timed out after {0} ms; missing ranks {0}-{0}",
    ],
)
def test_one_line_with_an_impossible_number_changes_no_verdict(certain: Path, line: str, number: str) -> None:
    before = verdict_of(certain).findings[0]
    with (certain / "other.log").open("w") as file:
        file.write("".join(f"{text}\n" for text in ("Traceback (most recent call last):", line.format(number), line)))

    verdict = verdict_of(certain)

    assert exit_code(verdict) == 1
    assert verdict.findings[0].cause is before.cause
    assert json.loads(to_json(verdict))
    assert to_html(verdict, build_facts(read_evidence([str(certain)])))


@pytest.mark.parametrize("which", [r"\b\d+\b", r"\d+"], ids=["numbers", "digits"])
@pytest.mark.parametrize("room", sorted({row.id.partition(".")[0] for row in load_messages()}))
def test_messages_without_a_number_that_can_be_one_are_read(room: str, which: str, tmp_path: Path) -> None:
    """A field with an impossible number is absent: who asks for it must do without."""
    said = [row.example for row in load_messages() if row.id.partition(".")[0] == room]
    (tmp_path / "rank0.log").write_text("\n".join(re.sub(which, "9" * 17, line) for line in said), encoding="utf-8")

    verdict = verdict_of(tmp_path)

    assert not any(part.failed for part in (*verdict.not_checked, *verdict.unread)), told(verdict)


def test_a_line_that_the_reader_fails_on_is_named_and_the_rest_answers(
    certain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (certain / "other.log").write_text("first\nBAD LINE\n" * 5)
    before, read_line = verdict_of(certain).findings[0], LineReader._line

    def failing(self: LineReader, whole: str, line: int, rows: Any) -> None:
        fail() if "BAD LINE" in whole else read_line(self, whole, line, rows)

    monkeypatch.setattr(LineReader, "_line", failing)
    verdict = verdict_of(certain)

    assert verdict.findings[0].cause is before.cause
    assert verdict.findings[0].certainty is Certainty.LIKELY is not before.certainty
    assert "other.log:2: could not be read: unhang failed on it (RuntimeError in test_isolation.py" in told(verdict)
    assert "2 more lines" in told(verdict)


@pytest.mark.parametrize(
    ("module", "reader"),
    [("logs", "read_log"), ("stacks", "read_stacks"), ("flight_recorder.many_dumps", "read_recorder_dump")],
)
def test_a_file_that_its_reader_fails_on_is_named_and_the_rest_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, reader: str
) -> None:
    shutil.copytree(STALLED, tmp_path / "input")
    shutil.copy(STALLED / "dumps" / "nccl_trace_rank_0", tmp_path / "input" / "other_rank_0")
    shutil.copy(STALLED / "stacks" / "rank_0.txt", tmp_path / "input" / "other_stack.txt")
    (tmp_path / "input" / "other.log").write_text("step 1 of 10\n" * 5)
    from importlib import import_module

    read = getattr(import_module(f"unhang.evidence.{module}"), reader)

    def failing(*given: Any, **named: Any) -> Any:
        return fail() if "other" in f"{given[:1]}{named.get('source')}" else read(*given, **named)

    monkeypatch.setattr(f"unhang.evidence.{module}.{reader}", failing)
    verdict = verdict_of(tmp_path / "input")

    assert verdict.findings[0].cause.value == "single-rank-work"
    assert all(finding.certainty is not Certainty.CERTAIN for finding in verdict.findings)
    assert [Path(item.source.path).name.startswith("other") for item in verdict.unread if item.failed] == [True]


STEPS = (
    "choose_dumps", "build_ranks", "world_size_of", "_with_activities", "groups_from_recordings", "_events",
    "add_node_positions", "add_progress_from_logs", "reopen_failed_calls", "reconcile_with_stacks", "add_guard_waits",
    "add_call_frames", "clear_gone_ranks", "_with_ends", "build_wait_graph", "find_mismatches",
    "assign_aborted_ranks", "_with_states", "find_all_joined_stalls", "find_stalls", "find_straggler",
    "find_all_slower", "nonfatal_from_comparisons",
)  # fmt: skip
STALLED = CASES / "single-rank-work" / "hit_rank_0_saves" / "input"


def is_healthy(verdict: Verdict) -> bool:
    return verdict.status is Status.HEALTHY or exit_code(verdict) == 0


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("evidence", [CERTAIN, STALLED], ids=["crash", "stall"])
def test_a_fact_that_fails_is_named_and_nothing_is_certain_or_well(
    evidence: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, step, fail)

    facts = build_facts(read_evidence([str(evidence)]))
    verdict = diagnose(facts)

    assert "RuntimeError in test_isolation.py" in told(verdict)
    assert not is_healthy(verdict)
    assert all(finding.certainty is Certainty.POSSIBLE for finding in verdict.findings)
    assert json.loads(to_json(verdict))
    assert to_markdown(verdict)
    for text in (to_text(verdict, facts), to_html(verdict, facts)):
        assert "RuntimeError" in text


def test_a_fact_that_depends_on_one_that_failed_could_not_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "build_wait_graph", fail)

    said = told(diagnose(build_facts(read_evidence([str(STALLED)]))))

    assert "who waits for whom could not be found out" in said
    assert "whether it is" in said


@pytest.mark.parametrize("evidence", [CERTAIN, STALLED], ids=["crash", "stall"])
def test_a_rule_that_fails_is_named_and_the_others_answer(evidence: Path) -> None:
    facts = build_facts(read_evidence([str(evidence)]))
    before = diagnose(facts)

    def half(facts: Facts) -> Iterator[DetectorResult]:
        fail()
        yield from ()

    broken = [
        Detector(r.name, r.cause, half if r.cause.value == "network-config" else r.check, r.page) for r in ALL_DETECTORS
    ]
    verdict = diagnose(facts, broken)

    assert verdict.findings[0].cause is before.findings[0].cause
    assert verdict.findings[0].certainty is not Certainty.CERTAIN
    assert told(verdict).count("network-config") == 1, "three rules that failed alike are one gap"


def test_all_rules_that_fail_are_no_health() -> None:
    facts = build_facts(read_evidence([str(CASES / "rank-crashed" / "miss_interrupted_by_its_user" / "input")]))

    assert not is_healthy(diagnose(facts, [Detector(r.name, r.cause, fail, r.page) for r in ALL_DETECTORS]))


@pytest.mark.parametrize("failing", PASSES, ids=lambda step: step.run.__name__)
def test_a_pass_that_fails_is_named(failing: Pass, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = tuple(replace(step, run=fail) if step is failing else step for step in PASSES)
    monkeypatch.setattr("unhang.diagnosis.diagnose.PASSES", passes)

    verdict = verdict_of(STALLED)

    assert "single-rank-work" in {finding.cause.value for finding in verdict.findings}
    assert failing.run is join_rank_and_explain_away or verdict.findings[0].cause.value == "single-rank-work"
    assert "RuntimeError" in told(verdict)


@pytest.mark.parametrize(
    ("section", "writes"),
    [
        ("text._why", to_text),
        ("text._closing", to_text),
        ("html.page.timelines", to_html),
        ("html.page.wait_graph", to_html),
        ("html.page.stack_groups", to_html),
        ("markdown._you", lambda verdict, facts: to_markdown(verdict)),
    ],
)
def test_a_section_that_fails_is_named_in_its_place(section: str, writes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = build_facts(read_evidence([str(STALLED)]))
    verdict = diagnose(facts)
    monkeypatch.setattr(f"unhang.report.{section}", fail)

    text = writes(verdict, facts)

    assert "RuntimeError" in text
    assert "single-rank-work" in text or "_you" in section


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_what_is_nobodys_fault_goes_through(error: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of(*_: Any) -> NoReturn:
        raise error

    monkeypatch.setattr(build, "build_wait_graph", out_of)

    with pytest.raises(error):
        build_facts(read_evidence([str(STALLED)]))
