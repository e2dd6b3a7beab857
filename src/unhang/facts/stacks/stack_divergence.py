"""Which of two stacks is further down in a function that both are in."""

from __future__ import annotations

from unhang.evidence.items import Frame
from unhang.facts.stacks.user_frames import is_user_frame
from unhang.knowledge.activities import bare_function
from unhang.program.syntax.syntax_tree import LinePosition


def first_differing_frames(first: tuple[Frame, ...], second: tuple[Frame, ...]) -> tuple[Frame, Frame] | None:
    """The first frames that differ, from the outside in; they are the user's, of one function, and have lines."""
    parted = _first_that_differ(first, second)
    if parted is None:
        return None
    one, other = parted
    same = (one.file, bare_function(one.function)) == (other.file, bare_function(other.function))
    if not same or not is_user_frame(one) or one.line is None or other.line is None:
        return None
    return one, other


def diverge_in_library(first: tuple[Frame, ...], second: tuple[Frame, ...]) -> bool:
    """They differ first inside a library, whose loop may have ended for one of them, or share no frame, as in a torn
    stack: the user's source cannot tell why."""
    return _first_that_differ(first, second) is not None and first_differing_frames(first, second) is None


def _first_that_differ(first: tuple[Frame, ...], second: tuple[Frame, ...]) -> tuple[Frame, Frame] | None:
    pairs = zip(_python(first), _python(second), strict=False)
    return next(((one, other) for one, other in pairs if one != other), None)


def common_block(above: LinePosition, below: LinePosition) -> int | None:
    """Depth of the block in which one line's statement comes before the other's; None in different arms."""
    if above.scopes != below.scopes:
        return None
    for depth, (first, second) in enumerate(zip(above.levels, below.levels, strict=False)):
        if first.block is not second.block:
            return None
        if first.index != second.index:
            return depth if first.index < second.index else None
    return None


def _python(frames: tuple[Frame, ...]) -> list[Frame]:
    """Outermost first."""
    return [frame for frame in reversed(frames) if not frame.native and frame.line is not None]
