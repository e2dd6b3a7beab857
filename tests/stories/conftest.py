"""One recorded run of each story for a whole session: the tests of a story share it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from unhang_lab.stories.recorded_run import RecordedRun, record_story
from unhang_lab.stories.story import Story, story_folder
from unhang_lab.stories.story_file import load_story

Record = Callable[[Story], RecordedRun]
MADE: dict[str, RecordedRun] = {}


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """``recorded(story)``: its run under ``unhang run``, made when it is asked for first."""

    def record(story: Story) -> RecordedRun:
        if story.name not in MADE:
            MADE[story.name] = record_story(story, tmp_path_factory.mktemp(story.name) / "stalled")
        return MADE[story.name]

    return record


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A story that went wrong on another machine is to be understood from the test's output alone."""
    report = yield
    module = getattr(item.getparent(pytest.Module), "obj", None)
    run = MADE.get(getattr(module, "STORY", "")) if report.failed else None
    if run is not None:
        report.sections.append(("what unhang run said", run.terminal[-3000:]))
        for path in sorted((run.run_folder / "stacks").glob("*.txt")):
            report.sections.append((f"{path.name} of the run folder", _without_packages(path)))
    return report


def _without_packages(path: Path) -> str:
    """The paths of packages, which are long, from the package on."""
    lines = path.read_text(errors="replace")[:8000].splitlines()
    return "\n".join(line.replace(line.partition("(")[2].rpartition("site-packages/")[0], "") for line in lines)


@pytest.fixture(scope="module")
def story(request: pytest.FixtureRequest) -> Story:
    """The story that the test file names with ``STORY = "…"``."""
    return load_story(story_folder(request.module.STORY))
