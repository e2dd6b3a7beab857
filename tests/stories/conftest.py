"""One recorded run of each story for a whole session: the tests of a story share it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from unhang.lab.stories.recorded import Recorded, record_story
from unhang.lab.stories.story import Story, story_folder
from unhang.lab.stories.story_file import load_story

Record = Callable[[Story], Recorded]


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """``recorded(story)``: its run under ``unhang run``, made when it is asked for first."""
    made: dict[str, Recorded] = {}

    def record(story: Story) -> Recorded:
        if story.name not in made:
            made[story.name] = record_story(story, tmp_path_factory.mktemp(story.name) / "stalled")
        return made[story.name]

    return record


@pytest.fixture(scope="module")
def story(request: pytest.FixtureRequest) -> Story:
    """The story that the test file names with ``STORY = "…"``."""
    return load_story(story_folder(request.module.STORY))
