"""The frame that every story stands in: what it says of a story that is wrong, and of an answer that is."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command import unhang
from tests.stories.story_writer import TRAIN, write_story
from unhang.errors import MissingExtra, UsageError
from unhang.sentences import say
from unhang.watch.job import job_processes
from unhang_lab.stories import page as fixes_page
from unhang_lab.stories.moments import (
    MomentResult,
    StoryStep,
    tell_after,
    tell_before,
    tell_during,
    tell_fixed,
    tell_story,
)
from unhang_lab.stories.patch import apply_patch
from unhang_lab.stories.recorded_run import RecordedRun
from unhang_lab.stories.story import STORIES, Moment, Story, available_stories, story_folder
from unhang_lab.stories.story_file import load_story
from unhang_lab.stories.table import BEGIN, END, FAILED, FOUND, NOT_ASKED, fill_section, rows_of, stories_table
from unhang_lab.stories.workplace import MARK_NAME, workplace

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """A small story of which one moment is told wrong: before, nothing of what it wants is there."""
    return load_story(write_story(tmp_path_factory.mktemp("stories") / "early", log_cause="gpu-oom"))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('title = "One rank leaves early"\n', "", "missing required field `title`"),
        ("ranks = 2", 'ranks = "two"', "Expected `int`, got `str` - at `$.ranks`"),
        ("ranks = 2", "ranks = 0", "Expected `int` >= 1 - at `$.ranks`"),
        ("[before]\n", "[before]\nranks = [1]\n", "unknown field `ranks` - at `$.before`"),
        ('[[before.finding]]\ncause = "rank-crashed"\n', "", "missing required field `finding` - at `$.before`"),
        ('status = "hang"', 'status = "stuck"', "Invalid enum value 'stuck' - at `$.during.status`"),
        ('cause = "uneven-data"\nranks', 'cause = "uneven"\nranks', "value 'uneven' - at `$.after.bundle.cause`"),
        ("(?P<count>", "(?P<number>", "the groups (?P<rank>…) and (?P<count>…) - at `$.during`"),
        ('"^finished$"', '"("', "no regular expression: missing ), unterminated subpattern"),
        ('"drop_last=True"]', '"seed=42"]', "'seed=42' is the change of no remedy"),
        ('"drop_last=True"', '"DistributedSampler(dataset"', "fixed.patch does not add 'DistributedSampler(dataset'"),
        ("limit_s = 90", "limit_s = ", "cannot be read"),
    ],
)
def test_a_story_that_is_wrong_gets_a_clear_sentence(old: str, new: str, says: str, tmp_path: Path) -> None:
    folder = write_story(tmp_path / "story", replace={old: new})

    with pytest.raises(UsageError, match=re.escape(says)) as raised:
        load_story(folder)

    assert str(folder / "story.toml") in str(raised.value)


def test_a_patch_is_applied_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN + "print(1)\n")
    other = "--- a/train.py\n+++ b/train.py\n@@ -1,2 +1,2 @@\n import datetime\n-import numpy\n+import torch\n"
    new = "--- /dev/null\n+++ b/seeds.py\n@@ -0,0 +1 @@\n+SEED = 42\n"
    outside = "--- a/../x.py\n+++ b/../x.py\n@@ -0,0 +1 @@\n+SEED = 42\n"

    for patch, says in ((new + other, "does not fit train.py"), (outside, "outside"), ("no patch", "changes nothing")):
        with pytest.raises(UsageError, match=says):
            apply_patch(patch, tmp_path)
    assert not (tmp_path / "seeds.py").exists()
    apply_patch(new, tmp_path)
    assert (tmp_path / "seeds.py").read_text() == "SEED = 42\n"


def test_a_library_that_is_not_there_is_named_with_how_to_get_it(tmp_path: Path) -> None:
    folder = write_story(tmp_path / "story", replace={"ranks = 2": 'ranks = 2\nneeds = ["no_such_library"]'})

    with pytest.raises(MissingExtra, match="no_such_library") as raised, workplace(load_story(folder)):
        pass

    assert raised.value.next_step == "pip install no_such_library"


def test_the_hint_names_what_pip_takes_and_not_what_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent, find_spec = ["PIL", "cv2", "sklearn", "yaml", "datasets"], importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in absent else find_spec(name))
    folder = write_story(tmp_path / "story", replace={"ranks = 2": f"ranks = 2\nneeds = {json.dumps(absent)}"})

    with pytest.raises(MissingExtra) as raised, workplace(load_story(folder)):
        pass

    assert raised.value.next_step == "pip install pillow opencv-python scikit-learn pyyaml datasets"


@pytest.mark.job
@pytest.mark.timeout(300)
@pytest.mark.live  # the five stories do the same
def test_a_stall_is_judged_while_the_job_lives_and_again_from_its_run_folder(
    early: Story, recorded: Callable[[Story], RecordedRun]
) -> None:
    run = recorded(early)

    cell = tell_during(run)
    assert cell.right, cell.steps
    assert run.exit_code not in (0, None)
    assert "unhang" not in run.output
    assert not job_processes.processes_with_mark(f"{MARK_NAME}={run.root}")
    log, bundle = tell_after(run).steps
    assert bundle.wrong == ()
    assert [str(text).rpartition(", ")[2] for text in log.wrong] == ["must be gpu-oom"]


@pytest.mark.job
def test_a_moment_with_a_wrong_answer_is_not_right_and_the_table_says_why(early: Story) -> None:
    cell = tell_before(early)

    assert not cell.right
    assert cell.steps[0].command.startswith("unhang check --only limits -- torchrun")
    row = stories_table({("openclip", Moment.BEFORE): cell}).splitlines()[STORIES.index("openclip") + 2]
    assert f"| {FAILED} there is no finding, it must be rank-crashed |" in row
    assert row.count(NOT_ASKED) == 3


@pytest.mark.job
def test_a_job_that_cannot_be_prepared_gives_cells_that_say_so(tmp_path: Path) -> None:
    prepare = 'limit_s = 90\nprepare = [["python", "-c", "raise SystemExit(\'no data\')"]]'
    story = load_story(write_story(tmp_path / "unprepared", replace={"limit_s = 90": prepare}))

    cells = list(tell_story(story, tuple(Moment), tmp_path / "runs"))

    assert [cell.moment for cell in cells] == list(Moment)
    for cell in cells:
        assert not cell.right
        assert "ended with exit code 1: no data" in str(cell.steps[0].wrong[0])


@pytest.mark.job
@pytest.mark.timeout(300)
def test_the_repaired_job_ends_well_and_one_that_is_not_repaired_does_not(tmp_path: Path) -> None:
    story = load_story(write_story(tmp_path / "repaired"))
    broken = write_story(tmp_path / "broken")
    (broken / "train.py").write_text(TRAIN.replace("dist.barrier()", "raise SystemExit(3)"))

    cell, failed = tell_fixed(story, tmp_path / "one"), tell_fixed(load_story(broken), tmp_path / "two")

    assert cell.right, cell.steps
    said = [str(text) for text in failed.steps[0].wrong]
    assert any("ended with exit code 1" in text for text in said), said
    assert any("does not show ^finished$" in text for text in said), said


@pytest.mark.job
def test_a_job_that_does_not_end_is_ended_with_all_it_started(tmp_path: Path) -> None:
    endless = write_story(tmp_path / "endless", replace={"limit_s = 90": "limit_s = 4"})
    (endless / "train.py").write_text(TRAIN.replace("\n\nmain()", "\n\n__import__('time').sleep(600)"))

    cell = tell_fixed(load_story(endless), tmp_path / "run")

    assert any("did not end within 4 s" in str(text) for text in cell.steps[0].wrong), cell.steps
    assert not job_processes.processes_with_mark(f"{MARK_NAME}={(tmp_path / 'run').resolve()}")


def verdict(cause: str = "uneven-data", **more: object) -> dict[str, object]:
    where = {"file": "/home/ml/job/train.py", "line": 88, "function": "main"}
    first = {"cause": cause, "certainty": "likely", "ranks": [0], "where": where, "subject": None, "check": "program"}
    return {"status": "hang", "findings": [{**first, "summary": "…", "because": [], "remedies": [], **more}]}


def test_the_table_has_five_stories_by_four_moments_and_shows_what_was_found() -> None:
    step = StoryStep("unhang run", (), verdict())
    late = StoryStep("unhang run", (say("{what} is {found}, must be {right}", what="a|b", found="c", right="d"),), None)
    cells = {
        ("grpo", Moment.DURING): MomentResult("grpo", Moment.DURING, (step,), 2.0, 5.2),
        ("grpo", Moment.AFTER): MomentResult("grpo", Moment.AFTER, (step, step), 2.0),
        ("grpo", Moment.FIXED): MomentResult("grpo", Moment.FIXED, (late,), 2.0),
    }

    english, chinese = stories_table(cells).splitlines(), stories_table(cells, "zh").splitlines()

    assert_five_by_four(english)
    assert_five_by_four(chinese)
    row = english[-1]
    assert f"{FOUND} `uneven-data`, rank 0, train.py:88, after 5 s" in row
    assert f"{FOUND} log alone: `uneven-data`, likely, train.py:88; run folder: `uneven-data`" in row
    assert f"{FAILED} a\\|b is c, must be d" in row
    assert "5 秒后" in chinese[-1]


def assert_five_by_four(lines: list[str]) -> None:
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if line.strip()]
    assert [len(row) for row in rows] == [5] * 7, rows
    assert [row[0] for row in rows[2:]] == [f"[{name}](../stories/{name})" for name in STORIES]
    assert all(cell for row in rows[1:] for cell in row)


def test_a_page_keeps_all_but_its_table(tmp_path: Path) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nbehind\n")

    fill_section(page, "new\n")

    assert page.read_text() == f"before\n{BEGIN}\nnew\n{END}\nbehind\n"
    page.write_text(f"{BEGIN}\n{stories_table({}).replace(NOT_ASKED, 'kept')}{END}\n")
    cells = {("grpo", Moment.FIXED): MomentResult("grpo", Moment.FIXED, (StoryStep("torchrun", ()),), 2.0)}
    fill_section(page, stories_table(cells, kept=rows_of(page)))
    shown = [line for line in page.read_text().splitlines() if line.startswith("| [")]
    assert [line.count("kept") for line in shown] == [4, 4, 4, 4, 0]
    assert shown[-1].count(FOUND) == 1
    page.write_text("no markers\n")
    with pytest.raises(UsageError, match="has no place for the table"):
        fill_section(page, "new\n")


def test_the_list_names_every_story_in_both_languages() -> None:
    for lang in ("en", "zh"):
        run = unhang("demo", "--list", "--lang", lang)
        assert [line.split()[0] for line in run.stdout.splitlines()] == list(available_stories())
        assert all(len(line.split()) > 1 for line in run.stdout.splitlines())


def test_a_story_that_does_not_exist_and_a_folder_in_use_get_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "used").write_text("")

    for words, says in (
        (["demo", "no-such-story"], "There is no story 'no-such-story'"),
        (["demo", "--only", "before"], "belong to a story"),
        (["demo", "llama-recipes", "--out", str(tmp_path)], "is not empty"),
    ):
        run = unhang(*words, folder=tmp_path)
        assert run.returncode == 2, run.stderr
        assert says in run.stderr
        assert "Traceback" not in run.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["used"]


@pytest.mark.parametrize("page", ["docs/stories.md", "docs/stories.zh-CN.md"])
def test_both_pages_show_five_stories_by_four_moments(page: str) -> None:
    shown = (ROOT / page).read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]

    assert_five_by_four(shown.strip().splitlines())
    assert "unhang demo --table" in (ROOT / page).read_text(encoding="utf-8").partition(END)[2][:200]


@pytest.mark.parametrize(("page", "lang"), [("stories.md", "en"), ("stories.zh-CN.md", "zh")])
def test_the_page_of_fixes_holds_the_patch_of_every_story(page: str, lang: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")

    shown = text.partition(fixes_page.BEGIN)[2].partition(fixes_page.END)[0]
    assert shown == f"\n{fixes_page.fixes_page(lang)}", "python -m unhang_lab.stories.page writes it"


@pytest.mark.parametrize("name", available_stories())
def test_a_story_s_page_is_in_both_languages_and_its_patch_applies(name: str, tmp_path: Path) -> None:
    story = load_story(story_folder(name))
    pages = [(story.folder / page).read_text(encoding="utf-8") for page in ("README.md", "README.zh-CN.md")]

    assert all(f"unhang demo {name}" in text and story.fixed.patch in text for text in pages)
    assert story.title.keys() == {"en", "zh"}
    apply_patch((story.folder / story.fixed.patch).read_text(encoding="utf-8"), copied(story.folder, tmp_path / "job"))


def copied(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to)
    return to


@pytest.mark.job
@pytest.mark.parametrize(
    ("lang", "head", "ending"), [("en", "BEFORE", "All as expected"), ("zh", "之前", "全部符合预期")]
)
def test_one_moment_of_a_story_is_told_with_what_was_run_and_what_came_of_it(
    lang: str, head: str, ending: str, tmp_path: Path
) -> None:
    run = unhang("demo", "llama-recipes", "--only", "before", "--lang", lang, folder=tmp_path)

    assert run.returncode == 0, run.stderr
    assert f"✓ {head}" in run.stdout
    assert "$ unhang check --only program -- torchrun --standalone --nproc-per-node=2 finetuning.py" in run.stdout
    certainty = {"en": "likely", "zh": "很可能"}[lang]
    assert f"uneven-data · {certainty} · custom_dataset.py:29" in run.stdout
    assert ending in run.stdout


@pytest.mark.job
def test_ctrl_c_ends_what_a_story_started(tmp_path: Path) -> None:
    root = (tmp_path / "out" / "stalled").resolve()
    words = ["demo", "llama-recipes", "--only", "during", "--out", str(tmp_path / "out")]
    told = subprocess.Popen(
        [sys.executable, "-c", "from unhang.cli.main import main; main()", *words], stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(job_processes.processes_with_mark(f"{MARK_NAME}={root}")) < 5:
            time.sleep(0.05)
        assert len(job_processes.processes_with_mark(f"{MARK_NAME}={root}")) >= 5
        told.send_signal(signal.SIGINT)
        assert told.wait(60) == 130
    finally:
        told.kill()

    assert job_processes.processes_with_mark(f"{MARK_NAME}={root}") == ()
