"""What a verdict said is said again in the language of who reads the history, whatever the run was watched in."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from unhang.cli.main import main
from unhang.diagnosis.diagnose import diagnose
from unhang.evidence.inputs import read_evidence
from unhang.facts.build import build_facts
from unhang.findings import Verdict
from unhang.history.database import open_history
from unhang.history.place import HistoryPlace, history_place
from unhang.history.run import MAX_SUMMARIES, PastRun, RunEnding, RunFinding, run_from_folder
from unhang.report.language import translate
from unhang.report.text import to_text
from unhang.report.text_serialization import text_to_json
from unhang.sentences import Text, say
from unhang.watch import private_files
from unhang.wire.documents.earlier_verdicts import EarlierSuspect
from unhang.wire.documents.verdict_summary import VerdictSummary

SENTENCE = say(
    "{ranks:who} {ranks:waits|wait} in a collective on one number, which is what a barrier is", ranks=(1, 2, 3)
)
OTHER = say("the watchers of the nodes are connected")


def summary(number: int, sentence: Text) -> VerdictSummary:
    said = VerdictSummary(
        number,
        "stall",
        "hang",
        "slow-rank",
        "likely",
        (0,),
        "t.py:5",
        str(sentence),
        None,
        None,
        False,
        False,
        False,
        False,
    )
    return replace(said, sentence_parts=text_to_json(sentence))


def look(folder: Path, number: int, sentence: Text, place: Path) -> None:
    """What a look leaves: the verdict at ``place``, and its summary."""
    finding = {"cause": "slow-rank", "certainty": "likely", "ranks": [0], "summary": str(sentence)}
    place.mkdir(parents=True, exist_ok=True)
    (place / "verdict.json").write_text(json.dumps({"status": "hang", "findings": [finding]}))
    private_files.write_json(folder / ".unhang" / f"summary-{number}.json", asdict(summary(number, sentence)))


def kept(folder: Path) -> PastRun:
    return run_from_folder(RunEnding(str(folder), failed=False, ended_s=9.0, hosts=("h7",)))


def test_each_verdict_of_a_run_knows_how_its_sentence_is_carried(tmp_path: Path) -> None:
    look(tmp_path, 9, OTHER, tmp_path / ".unhang" / "past" / "9")
    look(tmp_path, 10, SENTENCE, tmp_path)

    assert [told.parts for told in kept(tmp_path).verdicts] == [
        json.loads(json.dumps(text_to_json(sentence))) for sentence in (SENTENCE, OTHER)
    ]


def test_a_sentence_nobody_carried_stays_as_it_was_said(tmp_path: Path) -> None:
    look(tmp_path, 1, SENTENCE, tmp_path)
    (tmp_path / ".unhang" / "summary-1.json").write_text('{"sentence": "torn')
    (tmp_path / ".unhang" / "summary-x.json").write_text("[]")

    assert [(told.sentence, told.parts) for told in kept(tmp_path).verdicts] == [(str(SENTENCE), None)]


def test_a_run_of_many_looks_costs_no_time(tmp_path: Path) -> None:
    look(tmp_path, 1, OTHER, tmp_path / ".unhang" / "past" / "1")
    for number in range(2, MAX_SUMMARIES + 2):
        look(tmp_path, number, SENTENCE, tmp_path)

    assert [told.parts is None for told in kept(tmp_path).verdicts] == [False, True]


def test_no_secret_is_kept_in_a_value(tmp_path: Path) -> None:
    secret = "hf_" + "a1B2" * 9
    look(tmp_path, 1, say("Rank {rank} ended first", rank=secret), tmp_path)

    told = kept(tmp_path).verdicts[0]

    assert told.parts is not None
    assert secret not in f"{told.sentence} {told.parts}"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as left:
        main(["history", *words])
    assert left.value.code == 0
    return capsys.readouterr().out


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HistoryPlace:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return history_place({"XDG_STATE_HOME": str(tmp_path)})


def keep(state: HistoryPlace, parts: dict[str, Any] | None) -> None:
    told = RunFinding("slow-rank", "likely", "hang", (0,), (), (), "t.py:5", str(SENTENCE), parts)
    with open_history(state, to_write=True) as history:
        history.add(PastRun("/runs/a", "torchrun t.py", "/home/ml", 1.0, 9.0, "stalled", verdicts=(told,)))


def test_the_reader_s_language_is_spoken(state: HistoryPlace, capsys: pytest.CaptureFixture[str]) -> None:
    keep(state, json.loads(json.dumps(text_to_json(SENTENCE))))
    chinese = translate(SENTENCE, "zh")
    assert chinese != str(SENTENCE)

    assert f"：{chinese}（t.py:5）" in printed(capsys, "1", "--lang", "zh")
    assert f": {SENTENCE} (t.py:5)" in printed(capsys, "1", "--lang", "en")


def test_json_is_english_unless_asked_for(
    state: HistoryPlace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(state, text_to_json(SENTENCE))
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")

    def sentence(*words: str) -> list[str]:
        found = json.loads(printed(capsys, "--json", *words))
        rows = found["runs"] if "runs" in found else [found["run"]]
        assert all("parts" not in told for row in rows for told in row["verdicts"])
        return [told["sentence"] for row in rows for told in row["verdicts"]]

    assert sentence() == sentence("1") == [str(SENTENCE)]
    assert sentence("--lang", "zh") == sentence("1", "--lang", "zh") == [translate(SENTENCE, "zh")]


@pytest.mark.parametrize("parts", [None, {"template": "no sentence of ours {x:>9999999999}", "values": {"x": 1}}, {}])
def test_what_cannot_be_said_again_is_said_in_english(
    state: HistoryPlace, parts: dict[str, Any] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(state, parts)

    assert f"：{SENTENCE}（t.py:5）" in printed(capsys, "1", "--lang", "zh")


def guilty_before(tmp_path: Path) -> Verdict:
    log = tmp_path / "kernel.log"
    log.write_text("Nov 21 10:00:00 h7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n")
    facts = build_facts(read_evidence([str(log)]))
    return diagnose(replace(facts, earlier=(EarlierSuspect("host", "h7", "gpu-hardware", 2, 1.7e9),)))


@pytest.mark.parametrize(
    ("lang", "note"),
    [
        ("en", "arlier verdicts named h7 too (runs: 2; last on 2023-11-14: gpu-hardware)"),
        ("zh", "以前的结论也点名过 h7（2 次运行；最近一次 2023-11-14：gpu-hardware）"),
    ],
)
def test_the_note_in_the_next_verdict_is_in_the_reader_s_language(tmp_path: Path, lang: str, note: str) -> None:
    assert note in " ".join(to_text(guilty_before(tmp_path), None, lang=lang, width=400).split())
