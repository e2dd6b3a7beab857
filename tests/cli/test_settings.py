"""Where defaults of options come from, which wins, and what a project's file can never do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import leavings
from unhang.cli import settings
from unhang.cli.main import main

SOURCES = [Path(__file__).parents[2] / place for place in ("src", "packages/unhang-lab/src")]
Ask = Callable[..., tuple[int, str, str]]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own file, in a home of its own; this folder is a project below it, with a log."""
    project = tmp_path / "project" / "deep"
    project.mkdir(parents=True)
    (project / "job.log").write_text(leavings.watchdog_log(0))
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / ".config" / "unhang" / "config.toml"
    file.parent.mkdir(parents=True)
    return file


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], own: Path) -> Ask:
    def answer(*words: str) -> tuple[int, str, str]:
        settings._files.cache_clear()
        settings._complain.cache_clear()
        with pytest.raises(SystemExit) as left:
            main(words)
        said = capsys.readouterr()
        assert isinstance(left.value.code, int)
        return left.value.code, said.out, said.err

    return answer


def project(text: str) -> None:
    (Path.cwd().parent / "pyproject.toml").write_text(f'[project]\nname = "x"\n{text}')


def shape(answer: str) -> str:
    return (
        "json"
        if answer.startswith("{")
        else "markdown"
        if answer.startswith("**")
        else "html"
        if "<html" in answer
        else "text"
    )


def test_an_option_wins_over_a_variable_over_the_project_over_the_users_file(
    own: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shape(ask("job.log")[1]) == "text"
    own.write_text('[diagnose]\nformat = "html"\n')
    assert shape(ask("job.log")[1]) == "html"
    project('[tool.unhang.diagnose]\nformat = "markdown"\n')
    assert shape(ask("job.log")[1]) == "markdown"
    monkeypatch.setenv("UNHANG_DIAGNOSE_FORMAT", "json")
    assert shape(ask("job.log")[1]) == "json"
    assert shape(ask("job.log", "--format", "text")[1]) == "text"


def test_a_verb_wins_over_all_verbs(own: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    own.write_text('lang = "zh"\n[explain]\nlang = "en"\n')
    assert "HANG" not in ask("job.log")[1]
    assert ask("explain", "Xid", "79")[1].isascii() or "GPU driver event" in ask("explain", "Xid", "79")[1]
    monkeypatch.setenv("UNHANG_LANG", "en")
    assert "HANG" in ask("job.log")[1]
    monkeypatch.setenv("UNHANG_DIAGNOSE_LANG", "zh")
    assert "HANG" not in ask("job.log")[1]


def test_flags_numbers_and_lists_of_files_and_variables(own: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    own.write_text(
        "[history]\nlimit = 7\nformat = 'json'\n[check]\nassume = ['torch=2.8']\nformat = 'json'\nquiet = true\n"
    )
    assert json.loads(ask("history")[1])["runs"] == []
    code, _, said = ask("check", "--only", "program", "--assume", "torch")
    assert (code, "PACKAGE=VERSION" in said) == (2, True)
    assert ask("check", "--only", "program")[0] in (0, 3)
    monkeypatch.setenv("UNHANG_HISTORY_LIMIT", "no number")
    code, _, said = ask("history")
    assert (code, "UNHANG_HISTORY_LIMIT" in said) == (2, True)


def test_a_wrong_value_says_where_it_is_set(own: Path, ask: Ask) -> None:
    own.write_text('[diagnose]\nformat = "yaml"\n')

    code, answer, said = ask("job.log")

    assert (code, answer) == (2, "")
    assert str(own) in said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[diagnose]\nfromat = 'json'\n", "diagnose.fromat is not an option"),
        ("format = 'json'\n", "format belongs in the table of a verb"),
        ("diagnose = [\n", "is not valid TOML"),
        ("diagnose = 5\n", "diagnose belongs in the table of a verb"),
        ("\x00", "is not valid TOML"),
    ],
)
def test_what_a_file_cannot_mean_is_named_once_and_stops_nothing(text: str, said: str, own: Path, ask: Ask) -> None:
    own.write_text(text)

    code, answer, complaint = ask("job.log")

    assert (code, shape(answer)) == (1, "text")
    assert complaint.count(said) == 1
    assert complaint.count("\n") == 1


FORBIDDEN = {
    *("on-hang", "on-hang-exec", "abort-slow-after", "probe", "only", "dry-run", "grow", "try", "backend"),  # executed
    *("metrics", "metrics-open", "nodes-via", "history", "listen", "web", "no-open"),  # sent
    *(
        "output",
        "html",
        "dir",
        "save-case",
        "perfetto",
        "capture",
        "report",
        "into",
        "path",
        "overwrite",
        "forget",
        "older-than",
    ),  # written
    *("redact", "machine", "checkpoints", "assume", "host"),
}


def test_a_project_may_set_only_how_an_answer_looks_and_how_long_to_wait() -> None:
    from tests.cli.test_conventions import commands

    options = {
        name.lstrip("-") for _, one in commands() for param in one.params for name in param.opts if name[:2] == "--"
    }

    assert options >= settings.OF_PROJECT
    assert options >= FORBIDDEN
    assert not settings.OF_PROJECT & FORBIDDEN


def test_a_project_writes_nothing_and_starts_nothing(own: Path, ask: Ask) -> None:
    project(
        '[tool.unhang]\noutput = "a"\n[tool.unhang.diagnose]\noutput = "b"\nhtml = "c"\nsave-case = "d"\n'
        'lang = "zh"\n[tool.unhang.run]\non-hang = "abort"\non-hang-exec = "touch e"\ndir = "f"\n'
    )
    before = set(Path.cwd().rglob("*"))

    code, answer, said = ask("job.log")

    assert (code, set(Path.cwd().rglob("*"))) == (1, before)
    assert "HANG" not in answer
    assert {name for name in ("output", "html", "save-case") if f"diagnose.{name} 不能由项目设置" in said} == {
        "output",
        "html",
        "save-case",
    }
    assert settings.defaults_of("run", ["on-hang", "on-hang-exec", "dir"]) == {}


def test_the_users_file_may(own: Path, ask: Ask) -> None:
    own.write_text('[diagnose]\nhtml = "page.html"\n')

    ask("job.log")

    assert Path("page.html").exists()


def test_a_file_that_others_can_write_is_not_used(own: Path, ask: Ask) -> None:
    own.write_text('[diagnose]\nformat = "json"\n')
    own.chmod(0o666)

    code, answer, said = ask("job.log")

    assert (code, shape(answer)) == (1, "text")
    assert "is writable by other users; not used" in said


def test_a_project_without_a_word_of_us_is_looked_past(own: Path, ask: Ask) -> None:
    project("")
    (Path.cwd().parents[1] / "pyproject.toml").write_text('[tool.unhang.diagnose]\nformat = "json"\n')

    assert shape(ask("job.log")[1]) == "json"


def test_names_in_use_inside_are_reserved(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    used = {
        name
        for place in SOURCES
        for path in place.rglob("*.p*")
        if path.suffix in (".py", ".pth")
        for name in re.findall(r"(?<![A-Z_])UNHANG_[A-Z]+(?:_[A-Z]+)*", path.read_text("utf-8"))
    }
    monkeypatch.setenv("UNHANG_RUN_DIR", "somewhere")

    assert used - settings.RESERVED == {"UNHANG_LANG"}  # of all verbs: a language before the verb
    assert settings.defaults_of("run", ["dir", "lang"]) == {}


def test_completion_does_not_read_them(own: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    own.write_text("x = [\n")
    monkeypatch.setenv("_UNHANG_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "unhang diagnose --format m")
    monkeypatch.setenv("COMP_CWORD", "3")

    assert ask() == (0, "markdown\n", "")
