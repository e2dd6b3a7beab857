"""The incident library: rows that can be trusted to be what their names say."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib.resources import files

import pytest

from tests.work import calls_of
from unhang.errors import KnowledgeError
from unhang.findings import Cause
from unhang.knowledge.known_incidents.incidents import IncidentsFile, files_by_cause, incidents
from unhang.knowledge.tables import read_typed
from unhang.report.language import translate_known

ROW = """
checked = 2026-11-23
[[incident]]
id = "project-1"
link = "https://example.org/1"
year = 2024
cause = "gpu-oom"
phase = "steps"
signs = ["CUDA out of memory"]
happened = "One card ran out of memory."
fixed = "A smaller batch."
established = "reporter"
"""


def test_ids_and_links_stand_once() -> None:
    ids = Counter(incident.id for incident in incidents())
    links = Counter(incident.link for incident in incidents())

    assert [name for name, times in (ids + links).items() if times > 1] == []


def test_a_file_holds_one_cause_in_order_of_ids() -> None:
    for cause, rows in files_by_cause():
        assert {row.cause.value for row in rows} == {cause}
        assert [row.id for row in rows] == sorted(row.id for row in rows), cause


def test_an_incident_is_told_in_both_languages() -> None:
    told = [text for row in incidents() for text in (row.happened, row.fixed)]

    assert [text for text in told if translate_known(text, "zh") == text] == []


def test_no_incident_is_of_unknown_cause() -> None:
    assert Cause.UNKNOWN not in {incident.cause for incident in incidents()}


def test_words_of_the_frameworks_are_of_one_spelling() -> None:
    words = {word for incident in incidents() for word in incident.framework}
    pressed = Counter(word.replace("-", "").replace("_", "") for word in words)

    assert [word for word, times in pressed.items() if times > 1] == []


def test_rows_are_parted_by_one_blank_line() -> None:
    for place in files("unhang.knowledge").joinpath("incidents").iterdir():
        head, *rows = place.read_text(encoding="utf-8").split("\n\n")
        assert head.startswith("checked = "), place.name
        assert all(row.startswith("[[incident]]\n") for row in rows), place.name


@pytest.mark.parametrize(
    ("instead", "of", "says"),
    [
        ('phase = "later"', 'phase = "steps"', "phase"),
        ('cause = "gremlins"', 'cause = "gpu-oom"', "cause"),
        ('fixed = ""', 'fixed = "A smaller batch."', "fixed"),
        ('fixes = "A smaller batch."', 'fixed = "A smaller batch."', "fixe"),
        ("signs = []", 'signs = ["CUDA out of memory"]', "signs"),
        ('link = "see above"', 'link = "https://example.org/1"', "link"),
        ("", 'established = "reporter"', "established"),
        ("id = project", 'id = "project-1"', "line 4"),
    ],
)
def test_a_row_that_is_not_as_it_must_be_is_named(instead: str, of: str, says: str) -> None:
    assert read_typed("incidents/gpu-oom.toml", IncidentsFile, ROW).incident[0].id == "project-1"
    with pytest.raises(KnowledgeError, match=rf"incidents/gpu-oom\.toml: .*{says}"):
        read_typed("incidents/gpu-oom.toml", IncidentsFile, ROW.replace(of, instead))


def test_the_whole_library_is_little_work() -> None:
    rows = sum(len(rows) for _, rows in files_by_cause())

    assert calls_of(lambda: list(files_by_cause())) < 1000 * rows


def test_nothing_is_read_until_somebody_asks() -> None:
    code = "import unhang.cli.main, sys; print('unhang.knowledge.known_incidents.incidents' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert run.stdout.strip() == "False"
