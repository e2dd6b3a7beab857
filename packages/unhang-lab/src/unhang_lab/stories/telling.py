"""Tell the moments of a story in order, with one recorded run for those that need it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from unhang.errors import MissingExtra, UnhangError
from unhang.findings import say
from unhang_lab.recorder import Tell
from unhang_lab.stories.moments import Cell, Step, after, before, during, fixed
from unhang_lab.stories.recorded import record_story
from unhang_lab.stories.story import Moment, Story


def tell_story(
    story: Story, moments: Collection[Moment], folder: Path, *, tell: Tell = lambda _: None
) -> Iterator[Cell]:
    """A cell for each of ``moments``, as soon as it is known. ``folder`` keeps what the runs left.

    A job that could not be run gives cells that say so.

    Raises:
        MissingExtra: there is no PyTorch, or a library the story needs is missing.
    """
    stalled = None
    if Moment.BEFORE in moments:
        try:
            yield before(story, tell=tell)
        except MissingExtra:
            raise
        except UnhangError as error:
            yield failed(story.name, Moment.BEFORE, error)
    recorded = [moment for moment in (Moment.DURING, Moment.AFTER) if moment in moments]
    if recorded:
        try:
            stalled = record_story(story, folder / "stalled", tell=tell)
        except MissingExtra:
            raise
        except UnhangError as error:
            yield from (failed(story.name, moment, error) for moment in recorded)
            recorded = []
    if stalled is not None and Moment.DURING in recorded:
        yield during(stalled)
    if stalled is not None and Moment.AFTER in recorded:
        tell("reading what it left")
        yield after(stalled)
    if Moment.FIXED in moments:
        yield fixed(story, folder / "fixed", stalled, tell=tell)


def failed(story: str, moment: Moment, error: UnhangError) -> Cell:
    """A moment that could not be asked about."""
    return Cell(story, moment, (Step(story, (say("{what}", what=str(error)),)),), 0.0)
