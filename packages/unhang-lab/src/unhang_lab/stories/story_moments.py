"""Tell the moments of a story in order, with one recorded run for those that need it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from unhang.errors import MissingExtra, UnhangError
from unhang.sentences import say
from unhang_lab.stories.moments import MomentResult, StoryStep, tell_after, tell_before, tell_during, tell_fixed
from unhang_lab.stories.recorded_run import record_story
from unhang_lab.stories.story import Moment, Story
from unhang_lab.watched import Tell


def tell_story(
    story: Story, moments: Collection[Moment], folder: Path, *, tell: Tell = lambda _: None
) -> Iterator[MomentResult]:
    """A cell for each of ``moments``, as soon as it is known. ``folder`` keeps what the runs left.

    A job that could not be run gives cells that say so.

    Raises:
        MissingExtra: there is no PyTorch, or a library the story needs is missing.
    """
    stalled = None
    if Moment.BEFORE in moments:
        try:
            yield tell_before(story, tell=tell)
        except MissingExtra:
            raise
        except UnhangError as error:
            yield failed_moment(story.name, Moment.BEFORE, error)
    recorded = [moment for moment in (Moment.DURING, Moment.AFTER) if moment in moments]
    if recorded:
        try:
            stalled = record_story(story, folder / "stalled", tell=tell)
        except MissingExtra:
            raise
        except UnhangError as error:
            yield from (failed_moment(story.name, moment, error) for moment in recorded)
            recorded = []
    if stalled is not None and Moment.DURING in recorded:
        yield tell_during(stalled)
    if stalled is not None and Moment.AFTER in recorded:
        tell("reading what it left")
        yield tell_after(stalled)
    if Moment.FIXED in moments:
        yield tell_fixed(story, folder / "fixed", stalled, tell=tell)


def failed_moment(story: str, moment: Moment, error: UnhangError) -> MomentResult:
    """A moment that could not be asked about."""
    return MomentResult(story, moment, (StoryStep(story, (say("{what}", what=str(error)),)),), 0.0)
