"""What users of other command lines take for granted: names of options, help, pipes, completion."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from scripts.catalogue import help_texts
from tests import leavings
from tests.command import unhang
from unhang.cli import diagnosing, options, settings
from unhang.cli.command_line import VERBS, command_line
from unhang.cli.main import main
from unhang.report.language import catalogue

DOCS = Path(__file__).parents[2] / "docs"
LOG = leavings.watchdog_log(0)


def commands() -> Iterator[tuple[str, Any]]:
    """Every verb by its words, those of groups too."""
    whole: Any = get_command(command_line())
    for name, command in whole.commands.items():
        yield name, command
        yield from ((f"{name} {inner}", one) for inner, one in getattr(command, "commands", {}).items())


VERB_NAMES = [name for name, _ in commands()]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.log").write_text(LOG)
    return tmp_path / "job.log"


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(words)
    said = capsys.readouterr()
    assert isinstance(left.value.code, int)
    return left.value.code, said.out, said.err


def parsed(verb: str, *words: str) -> dict[str, Any]:
    """What the parser makes of the words of a verb."""
    found = dict(commands())[verb]
    with found.make_context(f"unhang {verb}", list(words), **found.context_settings) as context:
        values: dict[str, Any] = context.params
        return values


@pytest.mark.parametrize("verb", ["", *VERB_NAMES])
def test_help_has_examples_and_no_types_of_flags(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, help_text, _ = printed(capsys, *verb.split(), "--help")

    assert code == 0
    assert "bool>" not in help_text.lower()
    assert "list[" not in help_text
    assert not {"--out", "--for", "--stall", "--again", "--json", "--no-color"} & {*re.findall(r"--[\w-]+", help_text)}
    assert re.search(r"^Examples:\n  \S", help_text, re.MULTILINE)


@pytest.mark.parametrize("verb", ["", *VERB_NAMES])
def test_help_is_in_chinese_too(verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("UNHANG_LANG", "")
    _, chinese, _ = printed(capsys, "--lang", "zh", *verb.split(), "--help")
    monkeypatch.setenv("UNHANG_LANG", "")
    _, english, _ = printed(capsys, *verb.split(), "--help")
    shown = {text: catalogue("zh")[text] for text in help_texts() if text in english}

    assert {"Options", "Examples:", "Show this message and exit."} <= shown.keys()
    assert [text for text, said in shown.items() if said not in chinese or (" " in text and text in chinese)] == []


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (["--lang", "zh", "run", "--help"], {}),
        (["--lang=zh", "run", "--help"], {}),
        (["run", "--help", "--lang", "zh"], {}),
        (["run", "-h"], {"LC_ALL": "zh_CN.UTF-8"}),
        (["lab", "run", "-h"], {"UNHANG_LANG": "zh"}),
        (["lab"], {"UNHANG_LANG": "zh"}),
    ],
)
def test_help_is_in_the_language_asked_for(
    words: list[str],
    environment: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"COLUMNS": "60", "UNHANG_LANG": "", **environment}.items():
        monkeypatch.setenv(name, value)
    _, shown, _ = printed(capsys, *words)

    assert shown.strip().startswith("用法：unhang ")
    assert " …" not in shown, "the end of a sentence is cut off"


def test_a_language_there_is_no_help_in(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown, error = printed(capsys, "run", "--lang", "xx", "--help")

    assert (code, shown) == (2, "")
    assert "There is no language 'xx' here" in error


@pytest.mark.parametrize("verb", VERB_NAMES)
def test_examples_are_understood(verb: str) -> None:
    examples = [
        line.strip() for line in inspect.getdoc(dict(commands())[verb].callback).partition("Examples:")[2].splitlines()
    ]  # type: ignore[union-attr]

    for line in filter(None, examples):
        words = shlex.split(line[line.index("unhang ") :])[1:]
        assert " ".join(words[: len(verb.split())]) == verb
        if verb != "lab":
            parsed(verb, *words[len(verb.split()) :])


@pytest.mark.parametrize(
    ("verb", "missing"),
    [("run", {"output", "color", "quiet"}), ("ramp", {"color"}), ("view", {"output"})],
)
def test_every_verb_has_the_common_options(verb: str, missing: set[str]) -> None:
    named = {name: {param.name for param in one.params} for name, one in commands() if name != "lab"}

    assert {"output", "color", "quiet", "verbose"} - named[verb] == missing
    assert all(
        {"output", "color", "quiet", "verbose"} <= have
        for name, have in named.items()
        if name not in ("run", "ramp", "view")
    )


@pytest.mark.parametrize(
    ("verb", "old", "name", "value"),
    [
        ("diagnose", "x --out f", "output", Path("f")),
        ("compare", "x y --out=f", "output", Path("f")),
        ("demo", "--out f", "output", Path("f")),
        ("lab run", "x --out f", "output", Path("f")),
        ("attach", "--for 6", "for_s", 6.0),
        ("ramp", "--stall 9 x", "stall_after", 9.0),
        ("reshard", "x --ranks 8 --again", "overwrite", True),
        ("history", "--json", "as_json", True),
        ("diagnose", "x --debug", "verbose", True),
    ],
)
def test_old_names_are_understood(verb: str, old: str, name: str, value: object) -> None:
    found = dict(commands())[verb]
    with found.make_context(
        verb, old.split(), **{**found.context_settings, "token_normalize_func": options.current_name}
    ) as context:
        assert str(context.params[name]) == str(value)


def test_what_follows_a_command_is_its_own() -> None:
    words = parsed("run", "--slow-after", "5", "train.py", "--out", "x", "--color", "--no-color")

    assert [*words["command"]] == ["train.py", "--out", "x", "--color", "--no-color"]


@pytest.mark.parametrize(
    ("words", "coloured"),
    [
        (["--color", "always"], True),
        (["--color=never"], False),
        (["--color", "auto"], False),
        (["--color"], True),
        (["--no-color"], False),
        ([], False),
    ],
)
def test_colour_by_option(words: list[str], coloured: bool, log: Path) -> None:
    for verb in (["diagnose", "job.log"], ["explain", "Xid", "79"]):
        run = unhang(*verb, *words, folder=log.parent, environment={"TERM": "xterm-256color"})

        assert ("\x1b[" in run.stdout) is coloured
        assert (run.returncode, run.stderr) == (1 if verb[0] == "diagnose" else 0, "")


def test_colour_alone_does_not_eat_the_path(log: Path) -> None:
    assert "\x1b[" in unhang("diagnose", "--color", "job.log", folder=log.parent).stdout


@pytest.mark.parametrize(
    "words", [["diagnose", "job.log"], ["explain", "Xid", "79"], ["history"], ["check", "--only", "program"]]
)
def test_answers_go_to_a_file_whole_and_private(
    words: list[str], log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(log.parent))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    code, answer, _ = printed(capsys, *words)
    again, nothing, said = printed(capsys, *words, "-o", "new/answer.txt")

    assert (again, nothing, said) == (code, "", "written to new/answer.txt\n")
    assert (log.parent / "new" / "answer.txt").read_text() == answer
    assert (log.parent / "new" / "answer.txt").stat().st_mode & 0o777 == 0o600


def test_a_file_stays_where_the_command_fails(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log.parent / "answer.txt").write_text("before")

    assert printed(capsys, "diagnose", "nothing.log", "-o", "answer.txt")[0] == 2
    assert (log.parent / "answer.txt").read_text() == "before"


def test_quiet_leaves_the_answer_and_errors(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, answer, said = printed(capsys, "diagnose", "job.log", "-q", "--html", "page.html")
    _, _, error = printed(capsys, "diagnose", "nothing.log", "-q")

    assert (code, answer != "", said) == (1, True, "")
    assert error.startswith("unhang: ")


def test_verbose_says_which_rule_decided(log: Path) -> None:
    assert re.search(r"^rule \S+: \S+, ", unhang("diagnose", "job.log", "-v", folder=log.parent).stderr, re.MULTILINE)
    assert unhang("diagnose", "job.log", folder=log.parent).stderr == ""


@pytest.mark.parametrize(
    "words",
    [["check", "--only", "program"], ["explain", "Xid", "79"], ["history"]],
    ids=["check", "explain", "history"],
)
def test_markdown_is_a_block_that_a_chat_shows_as_it_is(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    _, plain, _ = printed(capsys, *words)
    _, block, _ = printed(capsys, *words, "--format", "markdown")

    assert block == f"````text\n{plain}````\n"


def test_a_history_is_one_object_by_both_names(
    capsys: pytest.CaptureFixture[str], log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(log.parent))

    assert json.loads(printed(capsys, "history", "--format", "json")[1]) == json.loads(
        printed(capsys, "history", "--json")[1]
    )


@pytest.mark.parametrize(
    "words", [["job.log"], ["./job.log"], ["job*"], ["job.log", "--format", "json"], ["folder"], ["-q", "job.log"]]
)
def test_a_path_in_place_of_a_verb_is_diagnosed(
    words: list[str], log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (log.parent / "folder").mkdir()
    (log.parent / "folder" / "job.log").write_text(LOG)

    assert printed(capsys, *words) == printed(capsys, "diagnose", *words)


def test_a_language_before_the_verb_is_that_of_the_verb(
    log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNHANG_LANG", "")
    chinese = printed(capsys, "diagnose", "job.log", "--lang", "zh")

    assert printed(capsys, "--lang", "zh", "job.log") == chinese
    assert printed(capsys, "--lang", "zh", "diagnose", "job.log") == chinese


def test_a_verb_is_no_path(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (log.parent / "history").mkdir()

    assert printed(capsys, "history", "--format", "json")[0] == 0
    assert "No such command" in printed(capsys, "histroy")[2]


@pytest.mark.parametrize(
    "words",
    [[], ["diagnose"], ["-"], ["diagnose", "-"], ["--format", "text"], ["--lang", "en"], ["--lang", "en", "-q"]],
)
def test_what_is_piped_in_is_diagnosed(words: list[str], log: Path) -> None:
    run = unhang(*words, standard_input=LOG.encode(), folder=log.parent)

    assert run.stdout.partition("\n")[0] == unhang("job.log", folder=log.parent).stdout.partition("\n")[0]
    assert run.returncode == 1


def test_a_log_as_standard_input_is_diagnosed_and_the_rest_of_a_script_is_not(log: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "unhang"]
    with log.open() as whole:
        assert subprocess.run(command, stdin=whole, check=False, capture_output=True, timeout=60).returncode == 1
    with log.open() as rest:
        os.lseek(rest.fileno(), 10, os.SEEK_SET)
        assert subprocess.run(command, stdin=rest, check=False, capture_output=True, timeout=60).returncode == 0


@pytest.mark.parametrize(("words", "code"), [([], 0), (["diagnose"], 2)])
def test_a_pipe_that_nobody_writes_to_is_not_waited_for(
    words: list[str], code: int, log: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(diagnosing, "PATIENCE_S", 0.2)
    with os.fdopen(reading) as silent:
        monkeypatch.setattr(sys, "stdin", silent)
        assert printed(capsys, *words)[0] == code
    os.close(writing)


def test_a_writer_that_takes_a_moment_is_waited_for() -> None:
    reading, writing = os.pipe()
    late = threading.Timer(0.3, os.write, (writing, b"step 1\n"))
    late.start()
    try:
        assert diagnosing._holds_text(reading)
    finally:
        late.join()
        os.close(writing)
    assert os.read(reading, 100) == b"step 1\n"
    assert not diagnosing._holds_text(reading)
    os.close(reading)


def test_it_is_a_module_and_has_a_short_version() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "unhang", "-V"], check=False, capture_output=True, text=True, timeout=60
    )

    assert run.stdout == unhang("--version").stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_of_each_shell(shell: str, tmp_path: Path) -> None:
    script = unhang(environment={"_UNHANG_COMPLETE": f"source_{shell}"}).stdout
    asked = {
        "COMP_WORDS": "unhang diagnose --format m",
        "COMP_CWORD": "3",
        "_TYPER_COMPLETE_ARGS": "unhang diagnose --format m",
    }
    asked["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"

    assert f"complete_{shell}" in script
    assert "markdown" in unhang(environment={"_UNHANG_COMPLETE": f"complete_{shell}", **asked}).stdout


@pytest.mark.parametrize("page", ["command-line.md", "command-line.zh-CN.md"])
def test_the_page_names_what_all_verbs_have(page: str) -> None:
    common, old = options._COMMON, options._OLD_NAMES
    text = (DOCS / page).read_text("utf-8")
    names = {f"--{name}" for name in (*common, *old, *old.values())}
    names |= settings.RESERVED | settings.OF_PROJECT | settings.SHARED

    assert {name for name in names if not re.search(rf"`{name}[`= ]", text)} == set()
    assert {verb.name for verb in VERBS} >= {"run", "view", "ramp"}
