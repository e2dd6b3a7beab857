"""What a short command loads: a one-line log and one word to explain need none of what large evidence needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from unhang.cli.command_line import command_line
from unhang.cli.diagnosing import DiagnoseRequest, parse_request

HEAVY = {
    "alembic",
    "asyncio",
    "ctypes",
    "hyperscan",
    "jinja2",
    "multiprocessing",
    "numpy",
    "sqlalchemy",
    "torch",
    "yaml",
}
WITHOUT_PARSER = {*HEAVY, "typer", "pydantic"}
"""Nor these, where no option is among the words."""
OWN_MODULES, PATTERNS = 357, 180
"""So many modules of ours may be loaded, and patterns compiled, for a one-line log (today 357 and 157)."""


def modules_after(*words: str, folder: Path) -> set[str]:
    """Names of the modules that ``unhang WORDS`` has loaded when it ends."""
    code = (
        "import sys\nfrom unhang.cli.main import main\n"
        f"try:\n    main({list(words)!r})\nexcept SystemExit:\n    pass\n"
        "print('LOADED', *sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60, cwd=folder
    )
    assert "LOADED " in done.stdout, done.stderr
    return set(done.stdout.rpartition("LOADED ")[2].split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("short")
    (folder / "rank0.log").write_text("x\n")
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ("diagnose", "rank0.log"),
        ("explain", "Xid", "79"),
        ("diagnose", "rank0.log", "--format", "json"),
        ("diagnose", "--format=markdown", "rank0.log"),
        ("diagnose", "--lang", "zh", "--redact", "rank0.log"),
        ("./rank0.log",),
    ],
)
def test_simple_words_load_no_parser(words: tuple[str, ...], folder: Path) -> None:
    loaded = modules_after(*words, folder=folder)
    assert "unhang.report.localizer" in loaded
    assert not loaded & WITHOUT_PARSER


SIMPLE = [
    ["a.log"],
    ["a.log", "b", "-"],
    ["a", "--format", "json", "b"],
    ["--format=html", "a"],
    ["a", "--lang", "zh", "--lang", "en"],
    ["a", "--redact"],
    ["a", "--html", "x y"],
    ["a", "--html=b=c"],
]
NOT_SIMPLE = [
    [],
    ["--redact"],
    ["a", "--format", "yaml"],
    ["a", "--format"],
    ["a", "--format", "--redact"],
    ["a", "--html="],
    ["a", "--help"],
    ["a", "--no-such"],
    ["a", "--redact=yes"],
    ["a", "--", "--redact"],
    ["a", "--save-case", "d"],
    ["a", "--debug"],
    ["a", "--color"],
    ["a", "-q"],
    ["a", "--output", "b"],
    ["a", "--out=b"],
]


@pytest.mark.parametrize("words", SIMPLE)
def test_words_are_read_without_the_parser_as_with_it(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with_parser: list[DiagnoseRequest] = []
    monkeypatch.setattr(DiagnoseRequest, "answer", lambda asked: with_parser.append(asked) or 0)

    command_line(["diagnose"])(args=["diagnose", *words], standalone_mode=False)

    assert with_parser == [parse_request(words)]


@pytest.mark.parametrize("words", NOT_SIMPLE)
def test_other_words_are_left_to_the_parser(words: list[str]) -> None:
    assert parse_request(words) is None


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("explain", "--lang", "zh", "Xid", "79")])
def test_short_commands_load_nothing_heavy(words: tuple[str, ...], folder: Path) -> None:
    loaded = modules_after(*words, folder=folder)
    assert "typer" in loaded
    assert not loaded & (HEAVY - {"ctypes"})  # a parser may load that one


def test_a_verb_loads_no_other_verb(folder: Path) -> None:
    loaded = modules_after("diagnose", "--debug", "rank0.log", folder=folder)
    verbs = {
        "attach",
        "bisect",
        "check",
        "compare",
        "demo",
        "explain",
        "history",
        "lab",
        "ramp",
        "reshard",
        "run",
        "view",
    }
    assert "unhang.cli.diagnose" in loaded
    assert not {f"unhang.cli.{verb}" for verb in verbs} & loaded


def test_a_short_log_loads_no_reader_of_other_formats(folder: Path) -> None:
    loaded = modules_after("diagnose", "rank0.log", folder=folder)
    others = ("unhang_compare.kineto", "unhang.evidence.flight_recorder")
    first_looks = {f"{room}{part}" for room in others for part in ("", ".dump_detection")}
    assert {name for name in loaded if name.startswith(others)} <= first_looks
    assert len([name for name in loaded if name.partition(".")[0] == "unhang"]) <= OWN_MODULES


def test_few_patterns_are_compiled_for_a_short_log(folder: Path) -> None:
    code = (
        "import re\nseen = []\nreal = re._compiler.compile if hasattr(re, '_compiler') else re.sre_compile.compile\n"
        "def counted(pattern, flags=0):\n    seen.append(pattern)\n    return real(pattern, flags)\n"
        "(re._compiler if hasattr(re, '_compiler') else re.sre_compile).compile = counted\n"
        "from unhang.cli.main import main\n"
        "try:\n    main(['diagnose', 'rank0.log'])\nexcept SystemExit:\n    pass\n"
        "print('COMPILED', len(seen))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=folder)
    assert 50 < int(done.stdout.rpartition("COMPILED ")[2]) <= PATTERNS


def test_rubbish_is_not_looked_for_in_a_short_log(folder: Path) -> None:
    code = (
        "import gc\nfrom unhang.cli.main import main\n"
        "def searches():\n    return sum(each['collections'] for each in gc.get_stats())\n"
        "before = searches()\n"
        "try:\n    main(['diagnose', 'rank0.log'])\nexcept SystemExit:\n    pass\n"
        "print('SEARCHES', searches() - before, gc.get_freeze_count())"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=folder)
    assert done.stdout.rpartition("SEARCHES ")[2].split() == ["0", "0"]  # frozen only when the interpreter ends


def test_no_pattern_of_a_message_is_compiled_before_its_line_is_met() -> None:
    from unhang.knowledge.messages import load_messages

    code = (
        "import re\nimport msgspec  # compiles its own\nseen = []\nreal = re.compile\n"
        "re.compile = lambda pattern, flags=0: (seen.append(pattern), real(pattern, flags))[1]\n"
        "from unhang.knowledge.messages import load_messages, match_message\n"
        "rows = load_messages()\nbefore = len(seen)\n"
        "assert match_message(rows[0].example)[0].row.id == rows[0].id\n"
        "print(before, len(seen))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    before, after = map(int, done.stdout.split())
    assert before < 20 < len(load_messages())
    assert before < after
