"""Nothing of somebody else's text acts on a terminal: every verb, both streams, with colours and without."""

from __future__ import annotations

import ast
import io
import json
import os
import pickle
import pty
import re
import shutil
import subprocess
import sys
import unicodedata
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from tests.case_writer import CASES
from tests.command import unhang
from tests.test_rooms import SOURCE, files
from unhang.report.layout.console import Console
from unhang.report.layout.terminal import clean_streams
from unhang.report.printable import printable

NASTY = (
    "\x1b[2J\x1b[8mgone\x1b]0;title\x07\x1bP1$tx\x1b\\\x9b2J\x07\x08\x7f\x0b\x85"
    "\u202eesrever\u2066\u2069\u200b\u200d\u00ad\u2028\u2029\u061c\ufeff\U000e0041end"
)
OURS = re.compile(r"\x1b\[(?:\d+(?:;\d+)*)?m|\x1b\[\?25[lh]|\x1b\[\d*[ABCDGHJK]|\r")
"""What rich needs to colour a text and to move a bar."""


def acts(text: str, *, colours: bool = False) -> list[str]:
    """What in ``text`` a terminal would act on, or would hide."""
    if colours:
        assert "\x1b[8m" not in text
        assert "\x1b[2J" not in text
        text = OURS.sub("", text)
    shown = text.replace("\n", "").replace("\t", "")
    return [character for character in shown if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def test_every_kind_is_made_printable() -> None:
    assert acts(printable(NASTY)) == []
    assert printable("数据\u3000集 é 👍 a\tb\nc") == "数据\u3000集 é 👍 a\tb\nc"
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    assert acts(printable(everything)) == []


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """Control characters wherever evidence can hold some."""
    folder = tmp_path / f"job{NASTY.replace('/', '')}"
    folder.mkdir()
    (folder / "rank0.log").write_text(
        f"[rank0]: Traceback (most recent call last):\n"
        f'[rank0]:   File "/home/x/{NASTY}train.py", line 3, in {NASTY}\n[rank0]:     {NASTY}\n'
        f"[rank0]: RuntimeError: {NASTY} broken\n"
        f"{NASTY} W1122 10:00:00.000 torch/distributed/elastic/agent: {NASTY}\n"
    )
    entry = {"process_group": ["0", NASTY], "profiling_name": f"nccl:{NASTY}", "state": NASTY, "collective_seq_id": 1}
    dump = {"version": NASTY, "pg_config": {"0": {"name": NASTY, "desc": NASTY, "ranks": "[0]"}}, "entries": [entry]}
    (folder / "trace_rank_0.json").write_text(json.dumps(dump))
    (folder / f"bad{NASTY}").write_bytes(b"\x80\x02" + NASTY.encode() * 3)
    named = b"c" + NASTY.encode() + b"\n" + NASTY.encode() + b"\n."
    (folder / "dump_rank_1").write_bytes(pickle.dumps(dump, 2)[:-1] + named)
    with zipfile.ZipFile(folder / "esc.zip", "w") as archive:
        archive.writestr(f"../{NASTY}", "x")
        archive.writestr(f"{NASTY}/rank_1.log", f"[rank1]: RuntimeError: {NASTY}\n")
    return folder


VERBS = {
    "diagnose": ["diagnose", "DIR"],
    "diagnose, wrong file": ["diagnose", "DIR/none" + NASTY],
    "diagnose, json": ["diagnose", "DIR", "--format", "json"],
    "diagnose, markdown": ["diagnose", "DIR", "--format", "markdown"],
    "diagnose, zh": ["diagnose", "DIR", "--lang", "zh"],
    "diagnose, a case": ["diagnose", "DIR", "--save-case", "case" + NASTY],
    "diagnose, debug": ["diagnose", "DIR/none" + NASTY, "--debug"],
    "compare": ["compare", "DIR", "DIR"],
    "compare, files": ["compare", "DIR/rank0.log", "DIR/rank0.log"],
    "view": ["view", "DIR"],
    "view, perfetto": ["view", "DIR", "--perfetto", "out" + NASTY],
    "explain": ["explain", NASTY],
    "explain, a line": ["explain", f"RuntimeError: NCCL error {NASTY}"],
    "history": ["history", NASTY],
    "check": ["check", "--only", NASTY],
    "check, a program": ["check", "--only", "program", "--", "python", NASTY],
    "attach": ["attach", NASTY],
    "attach, an address": ["attach", "--out", "DIR", "999999999"],
    "run": ["run", "--dir", "DIR", "--", "true"],
    "run, a command": ["run", "--dir", "new" + NASTY, "--", "no-such" + NASTY],
    "bisect": ["bisect", "--out", NASTY, "--", NASTY],
    "ramp": ["ramp", NASTY],
    "reshard": ["reshard", "DIR", NASTY],
    "lab": ["lab", "run", NASTY],
    "demo": ["demo", NASTY],
    "no verb": [NASTY],
    "an option": ["diagnose", "--" + NASTY],
}


@pytest.mark.parametrize("name", VERBS)
def test_no_verb_lets_control_characters_through(name: str, evidence: Path, tmp_path: Path) -> None:
    words = [word.replace("DIR", str(evidence)) for word in VERBS[name]]

    ran = unhang(*words, folder=tmp_path)

    assert acts(ran.stdout) == []
    assert acts(ran.stderr) == []
    assert "internal error" not in ran.stderr


def test_a_refused_pickle_is_told_without_what_acts(evidence: Path) -> None:
    for path in (evidence, evidence / "dump_rank_1"):
        ran = unhang("diagnose", path, "--format", "json")

        assert "it asks for the Python object" in ran.stdout + ran.stderr
        assert acts(ran.stdout + ran.stderr) == []


@pytest.mark.parametrize("name", ["diagnose", "compare", "view", "explain", "history", "diagnose, wrong file"])
def test_with_colours_only_colours_are_added(name: str, evidence: Path, tmp_path: Path) -> None:
    words = [word.replace("DIR", str(evidence)) for word in VERBS[name]]
    controller, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-c", "from unhang.cli.main import main; main()", *words]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, env=environment, cwd=tmp_path
    ):
        os.close(terminal)
        said = b""
        with suppress(OSError):
            while more := os.read(controller, 1 << 16):
                said += more
    os.close(controller)

    assert acts(said.decode(), colours=True) == []


def test_the_lines_of_a_run_are_clean(tmp_path: Path) -> None:
    program = f"import os\nos.environ['RANK'] = '0'\nraise RuntimeError({NASTY!r})"

    ran = unhang("run", "--dir", f"run{NASTY}", "--", sys.executable, "-c", program, folder=tmp_path)

    lines = [line for line in ran.stderr.splitlines() if line.startswith("unhang: ")]
    assert ran.returncode == 1
    assert acts("".join(lines)) == []


def test_what_the_watcher_says_is_clean(tmp_path: Path) -> None:
    from unhang.watch.run_folder import RunFolder

    folder = RunFolder.create(tmp_path / "run")
    folder.say(f"unhang: {NASTY}\n")

    assert acts(folder.said.read_text()) == []


def test_a_job_of_the_cases_with_all_names_hostile(tmp_path: Path) -> None:
    case = next(path for path in sorted(CASES.glob("rank-crashed/hit_*/input")) if any(path.glob("*.log")))
    folder = tmp_path / "case"
    shutil.copytree(case, folder)
    for path in folder.rglob("*.log"):
        text = path.read_text(errors="replace")
        path.write_text(text.replace("Error", f"Error{NASTY}").replace("/", f"/{NASTY}"))

    ran = unhang("diagnose", folder)

    assert acts(ran.stdout + ran.stderr) == []


def test_print_tracebacks_and_rich_pass_one_place(capsys: pytest.CaptureFixture[str]) -> None:
    with clean_streams():
        print(NASTY)
        print(NASTY, file=sys.stderr)
        sys.stdout.writelines([NASTY, NASTY])
        Console(force_terminal=True).print(f"[bold]{NASTY}[/bold]")

    told = capsys.readouterr()
    assert acts(told.out, colours=True) == acts(told.err) == []
    assert "\x1b[1m" in told.out


def test_rich_is_used_by_no_other_console() -> None:
    others = {
        str(path.relative_to(SOURCE))
        for path in files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and node.module == "rich.console"
        and any(alias.name == "Console" for alias in node.names)
    }
    echoes = {str(path.relative_to(SOURCE)) for path in files() if "typer.echo(" in path.read_text()}

    assert (others, echoes) == (set(), set())


def test_a_stream_without_a_file_behind_it_works(monkeypatch: pytest.MonkeyPatch) -> None:
    target = io.StringIO()
    monkeypatch.setattr(sys, "stdout", target)
    with clean_streams(), clean_streams():
        print("a\x1b[2Jb")

    assert (target.getvalue(), sys.stdout is target) == ("ab\n", True)


@pytest.mark.parametrize(
    "words",
    [
        ("diagnose", "runs/https://me:hunter2pass@host/x.log"),
        ("diagnose", "--password=hunter2pass", "x"),
        ("run", "--", "no-such-program-password=hunter2pass"),
        ("diagnose", "--debug", "no-file-password=hunter2pass"),
    ],
)
def test_no_secret_stands_on_standard_error(words: tuple[str, ...], tmp_path: Path) -> None:
    ran = unhang(*words, folder=tmp_path)

    assert ran.returncode in (2, 127)
    assert ran.stderr
    assert "hunter2" not in ran.stdout + ran.stderr
