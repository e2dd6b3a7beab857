"""What guards print holds words of somebody's program: none acts on a terminal, and no secret is among them."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import unhang.guards
from unhang.guards.background_writer import BackgroundWriter
from unhang.guards.exchange.printing import print_message

HOSTILE = "loader\x1b[2J\x1b]0;owned\x07\u202eevil\x9b31m"
SECRET = "password=hunter2pass"
ROOM = Path(unhang.guards.__file__).parent


def test_a_line_is_printable_and_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    print_message(f"{HOSTILE}: {SECRET}\nsecond line")

    said = capsys.readouterr().err
    assert said.startswith("[unhang] loader")
    assert said.replace("\n", "").isprintable()
    assert "hunter2" not in said
    assert said.count("\n") == 2


def test_a_writer_that_fails_with_hostile_words(capsys: pytest.CaptureFixture[str]) -> None:
    class Writer:
        def add_scalar(self, tag: str, value: float) -> None:
            raise OSError(f"{HOSTILE} {SECRET}")

    writer = BackgroundWriter(Writer())
    writer.add_scalar("loss", 1.0)
    writer.close()

    said = capsys.readouterr().err
    assert "training continues" in said
    assert said.replace("\n", "").isprintable()
    assert "hunter2" not in said


def test_a_closed_stream_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)

    print_message("nobody hears it")


def test_no_other_place_of_a_guard_prints() -> None:
    places = [path for folder in (ROOM, ROOM.with_name("integrations")) for path in sorted(folder.rglob("*.py"))]
    prints = [
        f"{path.name}:{node.lineno}"
        for path in places
        if path.name != "printing.py"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in ("print", "sys.stderr", "sys.stdout")
    ]

    assert len(places) > 30
    assert prints == []
