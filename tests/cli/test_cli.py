"""What scripts build on: exit codes, what stands on which stream, the verbs and their order."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import leavings
from tests.command import unhang
from unhang.cli import explore
from unhang.cli.output.verdict_output import exit_code
from unhang.findings import Cause, Certainty, Finding, Severity, Status, Verdict
from unhang.sentences import say


@pytest.fixture
def stalled(tmp_path: Path) -> Path:
    return leavings.write_bundle(tmp_path / "run")


def test_json_is_one_object_on_standard_output_and_nothing_else(stalled: Path) -> None:
    run = unhang("diagnose", stalled, "--format", "json")

    verdict = json.loads(run.stdout)
    assert verdict["schema"] == "unhang.verdict/1"
    assert verdict["findings"][0]["ranks"] == [3]
    assert run.returncode == 1
    assert run.stderr == ""


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_every_format_gives_an_answer(stalled: Path, form: str) -> None:
    run = unhang("diagnose", stalled, "--format", form)

    assert run.returncode == 1, run.stderr
    assert len(run.stdout) > 200


def test_reports_go_to_files_only_their_owner_reads(stalled: Path, tmp_path: Path) -> None:
    out, html = tmp_path / "new" / "verdict.json", tmp_path / "report.html"

    run = unhang("diagnose", stalled, "--format", "json", "--out", out, "--html", html)

    assert run.stdout == ""
    assert json.loads(out.read_text())["world_size"] == 4
    assert "<html" in html.read_text()[:500].lower()
    assert {path.stat().st_mode & 0o777 for path in (out, html)} == {0o600}


def test_text_has_no_colour_in_a_pipe_unless_asked(stalled: Path) -> None:
    plain = unhang("diagnose", stalled, environment={"NO_COLOR": ""})
    coloured = unhang("diagnose", stalled, "--color", environment={"NO_COLOR": "", "TERM": "xterm-256color"})

    assert "\x1b[" not in plain.stdout
    assert "\x1b[" in coloured.stdout


def test_text_survives_a_terminal_without_unicode(stalled: Path) -> None:
    run = unhang("diagnose", stalled, environment={"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})

    assert run.returncode == 1
    assert "Traceback" not in run.stderr


def test_standard_input(stalled: Path) -> None:
    run = unhang("diagnose", "-", "--format", "json", standard_input=leavings.watchdog_log(0).encode())

    assert run.returncode == 1, run.stderr
    assert json.loads(run.stdout)["status"] == "hang"


INIT = "h1:10:10 [0] NCCL INFO comm 0x5 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 10 commId 0x7 - Init COMPLETE\n"
DESTROY = "h1:10:10 [0] NCCL INFO comm 0x5 rank {} nranks 2 cudaDev 0 busId 10 - Destroy COMPLETE\n"
STEPS = "".join(f"step {step} loss 1.0\n" for step in range(50))


def test_what_a_healthy_job_leaves_is_exit_code_0(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.log").write_text(INIT + STEPS + DESTROY.format(rank))

    run = unhang("diagnose", tmp_path)

    assert run.returncode == 0
    assert "Ranks 0, 1 destroyed their process group" in " ".join(run.stdout.split())


@pytest.mark.parametrize(
    "logs",
    [
        {"rank0.log": "x\n"},
        {"rank0.log": INIT},
        {"rank0.log": STEPS, "rank1.log": STEPS},  # of how many?
        {"rank0.log": INIT + STEPS},  # and rank 1?
        {"rank0.log": INIT + STEPS, "rank1.log": STEPS[: len(STEPS) // 2]},
        {"rank0.log": INIT + STEPS, "rank1.log": STEPS + "Saving the model\n"},
        {"rank0.log": INIT + STEPS, "rank1.log": STEPS, "nccl_trace_rank_0": "\x80\x02}q"},
        {"rank0.log": INIT + STEPS, "rank1.log": STEPS, "nccl_trace_rank_0": "rubbish"},
        {"nccl_trace_rank_0": "rubbish"},
        {"nccl_trace_rank_0.json": "[" * 200_000},
    ],
    ids=[
        "a line",
        "only its start",
        "size not told",
        "a rank absent",
        "behind",
        "saves",
        "torn",
        "no dump",
        "rubbish",
        "deep",
    ],
)
def test_silence_is_not_health(logs: dict[str, str], tmp_path: Path) -> None:
    for name, text in logs.items():
        (tmp_path / name).write_text(text, encoding="latin-1")

    run = unhang("diagnose", tmp_path)

    assert run.returncode == (2 if "could not be read" in run.stderr or "can be read" in run.stderr else 3)
    assert "HEALTHY" not in run.stdout
    assert "Restart" not in run.stdout
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(("name", "text"), [("hello.txt", "hello world\n"), ("README.md", "# A trainer\n\nSteps: 3\n")])
def test_what_is_no_training_log_is_called_that(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)

    run = unhang("diagnose", tmp_path / name)

    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("unhang: This is no training log: ")


@pytest.mark.parametrize(
    "words",
    [
        ["diagnose"],
        ["diagnose", "/no/such/place"],
        ["diagnose", ".", "--format", "yaml"],
        ["no-such-verb"],
        ["diagnose", ".", "--lang", "xx"],
    ],
)
def test_bad_usage_is_exit_code_2_and_a_sentence(words: list[str], tmp_path: Path) -> None:
    run = unhang(*words, folder=tmp_path)

    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.strip()
    assert "Traceback" not in run.stderr


def test_debug_shows_the_trace() -> None:
    assert "Traceback" in unhang("diagnose", "/no/such/place", "--debug").stderr


def test_help_lists_the_verbs_in_order() -> None:
    run = unhang("--help")

    assert run.returncode == 0
    places = [run.stdout.find(verb) for verb in ("diagnose", "demo", "lab")]
    assert -1 not in places
    assert places == sorted(places)


def test_every_verb_has_help() -> None:
    for words in (["diagnose"], ["demo"], ["lab"]):
        assert "--help" in unhang(*words, "--help").stdout


def test_version() -> None:
    import unhang as package

    assert unhang("--version").stdout == f"unhang {package.__version__}\n"


def test_alone_it_names_the_one_command_for_what_lies_here(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": ""}
    (tmp_path / "train.log").write_text(leavings.watchdog_log(0))

    run = unhang(folder=tmp_path, environment=home)

    assert run.returncode == 0
    assert "train.log" in run.stdout
    assert "next: unhang diagnose ." in run.stdout


def test_a_folder_that_goes_away_while_it_is_read_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.log").touch()

    def goes_away(folder: Path, pattern: str) -> Iterator[Path]:
        yield folder / "job.log"
        raise FileNotFoundError(pattern)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "glob", goes_away)
        found = explore._matches(tmp_path, ("*.log", "*/*.log"))

    assert found == [tmp_path / "job.log"]


def test_alone_it_finds_dumps_where_pytorch_writes_them(tmp_path: Path) -> None:
    leavings.write_dumps(tmp_path / "home" / ".cache" / "torch", ranks=2)
    (tmp_path / "empty").mkdir()

    run = unhang(folder=tmp_path / "empty", environment={"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": ""})

    command = f"unhang diagnose '{tmp_path}/home/.cache/torch/nccl_trace_rank_*'"
    assert command in run.stdout


def test_alone_in_an_empty_place_it_says_what_to_give(tmp_path: Path) -> None:
    run = unhang(folder=tmp_path, environment={"HOME": str(tmp_path), "XDG_CACHE_HOME": ""})

    assert run.returncode == 0
    assert "next: " in run.stdout


def test_a_reader_that_leaves_early_gets_no_trace(stalled: Path) -> None:
    run = subprocess.run(
        f"{sys.executable} -c 'from unhang.cli.main import main; main()' diagnose {stalled} --format html | head -c 10",
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert "Traceback" not in run.stderr
    assert "BrokenPipe" not in run.stderr


def test_ctrl_c_leaves_with_130() -> None:
    reading, writing = os.pipe()
    run = subprocess.Popen(
        [sys.executable, "-c", "from unhang.cli.main import main; main()", "diagnose", "-"],
        stdin=reading,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        os.write(writing, b"step 1\n")
        _wait_until_reading(run.pid)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    finally:
        run.kill()
        os.close(writing)
        os.close(reading)

    assert run.returncode == 130
    assert "Traceback" not in said


def _wait_until_reading(pid: int) -> None:
    """Until the process sleeps in a read of its standard input."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if "pipe" in Path(f"/proc/{pid}/wchan").read_text():
            return
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("status", "severities", "code"),
    [
        (Status.HEALTHY, [], 0),
        (Status.HEALTHY, [Severity.NOTE], 0),
        (Status.HANG, [Severity.STOPS], 1),
        (Status.SLOW, [Severity.NOTE, Severity.SLOWS], 1),
        (Status.HANG, [], 1),
        (Status.UNKNOWN, [Severity.NOTE], 3),
        (Status.UNKNOWN, [Severity.STOPS], 1),
    ],
)
def test_exit_codes_follow_what_is_wrong(status: Status, severities: list[Severity], code: int) -> None:
    findings = tuple(Finding(Cause.UNKNOWN, Certainty.POSSIBLE, severity, say("x")) for severity in severities)

    assert exit_code(Verdict(status, 2, (0, 1), (), findings)) == code


PAIR = Path(__file__).parents[1] / "cases" / "network-config" / "hit_beside_the_log_of_another_job" / "input"


def test_files_of_two_jobs_get_two_verdicts_the_worst_first() -> None:
    text, chinese = unhang("diagnose", PAIR), unhang("diagnose", PAIR, "--lang", "zh")
    verdict = json.loads(unhang("diagnose", PAIR, "--format", "json").stdout)

    assert text.stdout.startswith("These files are of 2 jobs, which differ in time, host\n")
    _, first, second = re.split(r"\nJob \d of 2:", text.stdout)
    assert ("do-eks-gloo-loopback.log" in first, "minimax-tp8-shm.log" in second) == (True, True)
    assert re.findall("^(HANG|CRASH) ", text.stdout, re.MULTILINE) == ["HANG", "CRASH"]
    assert chinese.stdout.startswith("这些文件属于 2 个作业，不同之处：时间、主机\n")
    assert text.returncode == 1
    (other,) = verdict["other_jobs"]
    assert [verdict["findings"][0]["cause"], other["findings"][0]["cause"]] == ["network-config", "host-memory"]
    assert [Path(*each["files"]).name for each in (verdict, other)] == [
        "do-eks-gloo-loopback.log",
        "minimax-tp8-shm.log",
    ]


@pytest.mark.parametrize(
    ("lang", "form", "statuses"),
    [
        ("en", "text", ("1. HANG  ", "2. CRASH  ")),
        ("zh", "text", ("1. 卡住  ", "2. 崩溃  ")),
        ("en", "markdown", ("1. **HANG**: ", "2. **CRASH**: ")),
        ("zh", "markdown", ("1. **卡住**：", "2. **崩溃**：")),
    ],
)
def test_the_first_screen_of_two_jobs_names_both_with_their_times(
    lang: str, form: str, statuses: tuple[str, str]
) -> None:
    told = unhang("diagnose", PAIR, "--lang", lang, "--format", form).stdout.replace("`", "")
    listed, worst = re.split(r"\n(?:## )?(?:Job 1 of 2:|作业 1/2：)", told)[:2]
    rows = re.split(r"(?m)^ *(?=\d\. )", listed)[1:]
    claim = re.split(" {2}|: |：", rows[0], maxsplit=1)[1].split(" · " if form == "markdown" else "\n")[0].strip()

    assert [row.startswith(status) for row, status in zip(rows, statuses, strict=True)] == [True, True]
    assert ["do-eks-gloo-loopback.log" in rows[0], "minimax-tp8-shm.log" in rows[1]] == [True, True]
    assert [re.search(r" · .*\d\d:\d\d:\d\d – \d\d:", row) is not None for row in rows] == [True, True]
    assert claim
    assert claim in worst.replace("\\", "")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_page_and_a_saved_case_of_two_jobs_hold_both(lang: str, tmp_path: Path) -> None:
    page, case = tmp_path / "report.html", tmp_path / "case"
    unhang("diagnose", PAIR, "--lang", lang, "--html", page, "--save-case", case)
    shown, saved = page.read_text("utf-8"), json.loads((case / "expected.json").read_text("utf-8"))

    assert shown.index('id="job-1"') < shown.index("network-config · ") < shown.index('id="job-2"')
    assert "host-memory · " in shown.partition('id="job-2"')[2]
    ids = re.findall(r'\bid="([^"]+)"', shown)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', shown)) <= set(ids)
    assert [each["findings"][0]["cause"] for each in saved["other_jobs"]] == ["host-memory"]


def test_the_worst_job_decides_the_exit_code_and_one_jobs_verdict_names_no_others(stalled: Path) -> None:
    verdict = json.loads(unhang("diagnose", stalled, "--format", "json").stdout)

    assert (verdict["files"], verdict["other_jobs"]) == ([], [])


def test_a_file_cannot_write_lines_of_ours_to_standard_error(tmp_path: Path) -> None:
    def text(words: str) -> bytes:
        return b"X" + len(words.encode()).to_bytes(4, "little") + words.encode()

    named = text("o\x1b[31ms\nunhang: HEALTHY\r") + text("system\n  next: rm")
    entries = text("version") + text("2.10") + text("entries") + b"]" + named + b"\x93"
    (tmp_path / "nccl_trace_rank_0").write_bytes(b"\x80\x04}(" + entries + b"u.")

    run = unhang("diagnose", tmp_path / "nccl_trace_rank_0")

    assert "the Python object os unhang: HEALTHY .system next: rm (opcode" in run.stderr
    assert [line[:8] for line in run.stderr.splitlines()] == ["unhang: ", "  next: "]
