"""The history on a page and in Grafana: what is shown is what is kept, and every question is one PostgreSQL answers."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from tests.history.postgres_server import PostgresServer
from tests.history.test_history import NOW, fill, run, told
from tests.view.runs import document, run_folder
from tests.view.served import asked, served
from unhang.history.database import open_history
from unhang.history.place import HistoryPlace

BOARD = Path(__file__).parents[2] / "examples" / "monitoring" / "grafana-history.json"


def questions() -> dict[str, str]:
    """As Grafana would ask for the last 30 days."""
    found = {}
    for panel in json.loads(BOARD.read_text())["panels"]:
        sql = panel["targets"][0]["rawSql"]
        sql = re.sub(r"\$__unixEpochFilter\((\w+)\)", rf"\1 >= {NOW - 30 * 86400:.0f} AND \1 <= {NOW + 60:.0f}", sql)
        found[panel["title"]] = re.sub(r"\$__unixEpochGroup\((\w+), '1d'\)", r"floor(\1 / 86400) * 86400", sql)
    assert "$" not in "".join(found.values())
    return found


def test_every_panel_has_its_answer(server: PostgresServer, shared: HistoryPlace) -> None:
    with open_history(shared, to_write=True) as history:
        for at in range(40):
            hosts = (f"h{at % 8}", f"h{(at + 1) % 8}")
            named = (told(nodes=("h7",)),) if "h7" in hosts and at < 24 else ()
            history.add(run("stalled" if named else "good", at=NOW - 90 - at, hosts=hosts, verdicts=named))
        suspect = history.suspects(30)[0]
    database = shared.url.partition("@/")[2].partition("?")[0]
    answers = {title: server.sql(database, sql) for title, sql in questions().items()}

    assert answers["Runs"] == [(40,)]
    assert answers["Stalled"] == [(6,)]
    assert answers["Causes"] == [("gpu-hardware", 6)]
    assert len(answers["Last runs"]) == 40
    assert {row[1] for row in answers["Results"]} == {"good", "stalled"}
    [(kind, name, runs, of, chance, _)] = answers["Named repeatedly"]
    assert (kind, name, runs, of) == ("host", "h7", 6, 10) == ("host", suspect.name, suspect.runs, suspect.of)
    assert suspect.chance is not None
    assert isinstance(chance, float)
    assert chance == pytest.approx(suspect.chance, rel=1e-6)


@pytest.mark.parametrize(("lang", "heading"), [("en", "Named repeatedly in 30 days"), ("zh", "30 天内多次被点名")])
def test_the_page_shows_what_the_command_shows(named: HistoryPlace, lang: str, heading: str, tmp_path: Path) -> None:
    fill(named)
    with served(run_folder(tmp_path / "run", document()).path, lang) as server:
        code, body, headers = asked(server, "/history")

    page = body.decode()
    assert (code, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert heading in page
    assert "h7" in page
    assert "stalled · gpu-hardware" in page.replace("卡住", "stalled")
    assert "<script" not in page


def test_what_runs_were_called_is_no_markup(named: HistoryPlace, tmp_path: Path) -> None:
    with open_history(named, to_write=True) as history:
        history.add(run(at=time.time(), command="torchrun '<script>alert(1)</script>'"))
    with served(run_folder(tmp_path / "run", document()).path) as server:
        _, body, headers = asked(server, "/history")

    assert b"<script" not in body
    assert b"&lt;script&gt;" in body
    assert "script-src" not in headers["content-security-policy"]


def test_a_history_that_cannot_be_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNHANG_HISTORY", "postgresql://me:hunter2-hunter2@/db?host=/nowhere")
    with served(run_folder(tmp_path / "run", document()).path) as server:
        code, body, _ = asked(server, "/history")

    assert code == 503
    assert b"the history at postgresql://me@/db cannot be read" in body
    assert b"hunter2" not in body
