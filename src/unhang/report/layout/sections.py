"""Run each section of a report; one that fails becomes a gap in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from unhang.findings import Certainty, NotChecked
from unhang.sentences import say

Made = TypeVar("Made")
Other = TypeVar("Other")


def build_or_default(name: str, make: Callable[[], Made], otherwise: Other, gaps: list[NotChecked]) -> Made | Other:
    """What ``make`` gives; where that fails ``otherwise``, and ``gaps`` says so."""
    try:
        return make()
    except MemoryError:
        raise  # the whole is too large
    except Exception as error:  # noqa: BLE001 - the boundary of one section
        gaps.append(NotChecked.after(error, say("the {name} section of this report", name=name), Certainty.LIKELY))
        return otherwise
