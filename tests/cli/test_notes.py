"""Errors, what helps then, and notes are in the language that the command line asks for, the parser's own as well."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import leavings
from unhang.cli import settings
from unhang.cli.main import main

Said = Callable[..., str]
PROSE = re.compile(r"(?<![\w./-])(?!unhang|less|pip)[A-Za-z]?[a-z]+ [a-z]{2,} [a-z]{2,}\b")
"""Three English words in a row, which no command of ours is."""


@pytest.fixture
def said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Standard error of ``unhang WORDS…``, run beside a log and a picture, by a user without a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.log").write_text(leavings.watchdog_log(0))
    (tmp_path / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n" * 9)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "LANGUAGE", "LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"LANG": "en_US.UTF-8", "UNHANG_LANG": ""}.items():  # set, so that it is restored
        monkeypatch.setenv(name, value)

    def of(*words: str) -> str:
        settings._files.cache_clear()
        settings._complain.cache_clear()
        with pytest.raises(SystemExit):
            main(words)
        return capsys.readouterr().err

    return of


@pytest.mark.parametrize(
    ("words", "chinese"),
    [
        ("diagnose no.log", "没有可读的内容：no.log 不存在"),
        ("diagnose x.png", "没有一个文件能当作日志、转储或调用栈来读（看了 1 个文件）：x.png：是图片，里面没有证据"),
        ("diagnose job.log --html job.log/x", "无法写入（"),
        ("diagnose job.log --html r.html", "HTML 报告已写入 r.html"),
        ("diagnose job.log --output answer.txt", "已写入 answer.txt"),
        ("diagnose job.log --checkpoints no", "no 不存在\n  下一步：--checkpoints 后面写作业保存 checkpoint 的目录"),
        ("diagnose job.log --nosuch", "没有这个选项：--nosuch"),
        ("diagnose job.log --format yaml", "'--format' 的值无效：'yaml' 不在可选的值之中："),
        ("diagnose job.log --html", "选项 '--html' 后面要有一个值。"),
        ("diagnose job.log --redact=yes", "选项 '--redact' 后面不能有值。"),
        ("diagnosis", "没有命令 'diagnosis'。是不是 'diagnose'？"),
        ("explain", "缺少参数 'WORD…'。"),
        ("history 1 2", "多余的参数：2"),
        ("history x", "x 不是运行编号\n  下一步：unhang history 会列出所有运行"),
        ("history --limit 0", "'--limit' 的值无效："),
        ("history 7", "历史里没有编号为 7 的运行\n  下一步：unhang history 会列出所有运行"),
        ("check --only nothing", "没有名为 'nothing' 的检查\n  下一步：可选："),
        ("check --assume torch", "--assume 的写法是 PACKAGE=VERSION，而不是 torch"),
        ("view no", "no 不是运行目录（没有这个文件或目录）\n  下一步：其他证据用 unhang diagnose 读取"),
        ("reshard no.csv", "缺少选项 '--ranks'。"),
        ("compare no no", "no 不存在\n  下一步：请给出 unhang run 的运行目录，或 profiler 的 trace"),
        ("ramp true", "用 --grow 说明要增大什么"),
        ("reshard no.csv --ranks 2", "没有这个文件：no.csv"),
    ],
)
def test_what_is_refused_and_noted_is_said_in_chinese(words: str, chinese: str, said: Said) -> None:
    verb, *rest = words.split()

    assert chinese in (told := said("--lang", "zh", verb, *rest))
    assert not PROSE.search(told), "a part is English"


def test_an_error_of_the_parser_is_chinese_as_a_whole(said: Said) -> None:
    usage, hint, *between, error = said("run", "--lang", "zh", "--nosuch").splitlines()

    assert usage.startswith("用法：unhang run [OPTIONS] ")
    assert (hint, error) == ("查看帮助：unhang run -h", "错误：没有这个选项：--nosuch")
    assert not any(between)


@pytest.mark.parametrize("words", ["--lang zh {}", "--lang=zh {}", "{} --lang zh", "{} --lang=zh", "{}"])
@pytest.mark.parametrize("call", ["diagnose no.log", "history --nosuch", "view no"])
def test_the_language_is_taken_from_the_command_line(words: str, call: str, said: Said) -> None:
    asked = "zh" in words

    assert bool(re.search("[\u4e00-\u9fff]", said(*words.format(call).split()))) is asked


@pytest.mark.parametrize("name", ["UNHANG_LANG", "UNHANG_DIAGNOSE_LANG", "LANG"])
def test_a_variable_names_the_language(name: str, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "zh_CN.UTF-8")

    assert said("diagnose", "no.log").startswith("unhang: 没有可读的内容：")
    assert said("diagnose", "no.log", "--lang", "en").startswith("unhang: nothing to read: ")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('lang = "zh"\n', "nosuch 要写在某个命令的表里；未采用"),
        ('[diagnose]\nlang = "zh"\n', "diagnose.nosuch 不是选项；未采用"),
        ('lang = "en"\n[diagnose]\nlang = "zh"\n', "diagnose.nosuch 不是选项；未采用"),
    ],
)
def test_the_users_file_names_the_language(text: str, complaint: str, said: Said, tmp_path: Path) -> None:
    file = tmp_path / ".config" / "unhang" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)

    assert said("diagnose", "no.log").startswith("unhang: 没有可读的内容：")
    assert said("diagnose", "").startswith("unhang: unhang diagnose 收到一个空参数")
    file.write_text(f"{text}nosuch = 1\n")
    assert complaint in said("diagnose", "no.log")


def test_a_language_of_the_command_that_is_started_is_not_ours(said: Said) -> None:
    assert said("run", "--metrics", "x", "true", "--lang", "zh").startswith("unhang: x is neither a port nor HOST:PORT")
    assert said("run", "--metrics", "x", "--lang", "zh", "true").startswith("unhang: x 既不是端口")
    assert said("check", "--only", "x", "--", "train", "--lang", "zh").startswith("unhang: unknown check 'x'")


def test_a_language_that_there_is_none_of_is_refused_in_that_of_the_locale(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")

    assert said("diagnose", "job.log", "--lang", "xx").startswith("unhang: 没有 'xx' 这种语言；可选：en, zh。")
