"""Late patterns are the patterns that they stand for, compiled when they are first used."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from unhang.late_pattern import late_pattern

SOURCE = Path(__file__).resolve().parents[1] / "src"


def users() -> list[str]:
    return [
        ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for path in sorted(SOURCE.rglob("*.py"))
        if "late_pattern(" in path.read_text(encoding="utf-8") and path.stem != "late_pattern"
    ]


def test_nothing_is_compiled_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = re.compile
    monkeypatch.setattr(re, "compile", lambda text, flags=0: (asked.append(text), real(text, flags))[1])

    word = late_pattern(r"(?P<word>[a-z]+)", re.IGNORECASE)
    assert asked == []

    assert [word.findall("Ab 1 c"), word.sub("x", "Ab"), dict(word.groupindex)] == [["Ab", "c"], "x", {"word": 1}]
    assert (found := word.match("Ab")) is not None
    assert found["word"] == "Ab"
    assert asked == [r"(?P<word>[a-z]+)"]


def test_a_pattern_of_bytes_searches_bytes() -> None:
    found = late_pattern(rb"\d+").search(b"rank 12")

    assert found is not None
    assert found[0] == b"12"


def test_a_wrong_name_is_no_attribute() -> None:
    assert not hasattr(late_pattern("a"), "no_such")


def test_every_late_pattern_of_the_source_is_a_pattern() -> None:
    code = (
        "import importlib, re, sys, unhang.late_pattern as late\n"
        "late.late_pattern = re.compile\n"
        "for name in sys.argv[1:]:\n    importlib.import_module(name)"
    )

    assert len(users()) > 20
    done = subprocess.run([sys.executable, "-c", code, *users()], check=False, capture_output=True, text=True)
    assert done.stderr == ""
