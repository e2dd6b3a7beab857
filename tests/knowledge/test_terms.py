from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from unhang.findings import Cause
from unhang.knowledge.hardware import Kind
from unhang.knowledge.job.versions import version_rows
from unhang.knowledge.messages import load_messages
from unhang.knowledge.terms import Judgement, advice, normalize_term, term, terms
from unhang.report.explain.search import explain


def test_every_term_names_causes_that_exist_and_a_source() -> None:
    causes = {cause.value for cause in Cause}
    for row in terms():
        assert set(row.causes) <= causes, row.names
        assert row.source, row.names
        assert row.meaning, row.names


def test_every_kind_of_message_has_its_advice() -> None:
    said = {row.says for row in load_messages() if not row.benign} | {f"xid-{kind}" for kind in get_args(Kind)}
    assert sorted(kind for kind in said if advice(kind) is None) == [], (
        "a row of knowledge/advice.toml for what it says"
    )


@pytest.mark.parametrize("word", ["Killed", "  killed ", "SIGKILL", "-9", "137", "exitcode: -9", "exitcode  : -9"])
def test_one_end_has_many_names(word: str) -> None:
    found = term(word)
    assert found is not None
    assert found.names[0] == "exit code -9 (SIGKILL)"


def test_case_and_marks_do_not_count() -> None:
    assert normalize_term(' "CUDA  Out of Memory." ') == "cuda out of memory"


READ = [line.split("\t") for line in (Path(__file__).parent / "words_of_articles.tsv").read_text("utf-8").splitlines()]


@pytest.mark.parametrize("words", READ, ids=lambda words: words[0])
def test_what_articles_on_stalls_speak_of_is_explained_in_both_languages(words: list[str]) -> None:
    for word in words:
        pages = explain(word).pages
        assert pages, word
        assert pages[0].meaning, word


def test_advice_that_is_passed_on_is_judged_and_says_where_it_holds() -> None:
    judged = {text: (row.names[0], judgement) for row in terms() for judgement, text in row.judged}

    assert {judgement for _, judgement in judged.values()} == set(get_args(Judgement))
    assert len(judged) > 60
    bare = [row.names[0] for row in terms() if row.kind == "subject" and not (row.causes and row.source)]
    assert bare == []


@pytest.mark.parametrize(
    ("asked", "label", "says"),
    [
        ("升级CUDA", "No effect", "nvcc"),
        ("increase the timeout", "Harmful", "never arrives"),
        ("NCCL_TIMEOUT没用", "", ""),
        ("禁用点对点通信", "Costs", "it also switches NVLink off"),
        ("随机种子", "No effect", "torch.manual_seed"),
        ("num_generations", "No effect", "_ALLGATHER_BASE"),
        ("--metrics.enable_profiling", "No effect", "--profiling.enable_profiling"),
        ("WebDataset", "It depends", "DistributedSampler"),
        ("tmpfs", "Costs", "the machine's memory"),
        ("降级transformers", "It depends", "4.49.0"),
    ],
)
def test_folk_advice_is_judged(asked: str, label: str, says: str) -> None:
    page = explain(asked).pages[0]

    assert not label or any(str(said) == label and says in str(text) for said, text in page.details), page


def test_torch_and_driver_versions_agree_with_the_rows_of_versions() -> None:
    """The page on CUDA names driver branches: they are those that the wheels' rows ask for."""
    page = explain("CUDA version").pages[0]
    told = next(str(text) for _, text in page.details if "branch" in str(text))
    branches = [row for row in version_rows() if row.package == "nvidia-driver" and "minimum driver" in row.symptom]
    wanted = {row.affects.removeprefix(">=") for row in branches}

    assert wanted == set(re.findall(r"(?:branch |, )(\d{3}) for", told))
