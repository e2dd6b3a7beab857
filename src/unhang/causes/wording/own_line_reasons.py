"""What the rank's own last line says of the stall, and what to change where it says how the rank went its own way."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from unhang.facts.endings.own_last_lines import OwnLine
from unhang.findings import Remedy
from unhang.knowledge.remedies import remedy
from unhang.knowledge.words import Sentences
from unhang.sentences import Text, message_of_line

tell = Sentences("causes/shared.toml")
_CHARS = 160


def because(own: OwnLine, told: Collection[Text]) -> Iterator[Text]:
    """The line, and what led to it, unless one of the reasons ``told`` is about that."""
    ranks, place = _ranks(own), f"{own.file}:{own.line}"
    said = message_of_line(own.evidence.text, _CHARS)
    yield tell("alone-printed", ranks=ranks, line=said) if ranks else tell("one-printed", line=said)
    if not own.parts_ranks or any(place == text.values.get("place", "") for text in told):
        return
    if own.caught:
        yield tell("printed-in-handler", place=place)
    elif any(own.jump_line == text.values.get("line", "") for text in told):
        return
    elif own.branch not in (None, own.line):
        yield tell("printed-in-branch", place=place, test=own.test)
    elif own.jump:
        yield tell("printed-and-jumped", place=place, test=own.test, jump=own.jump)
    else:
        yield tell("printed-where", place=place, test=own.test)


def caught(exception: OwnLine) -> Text:
    """An exception that the rank outlived, and its handler."""
    ranks, words = _ranks(exception), message_of_line(exception.evidence.text, _CHARS)
    place = f"{exception.file}:{exception.line}"
    if not exception.file:
        return tell("outlived", ranks=ranks, exception=words) if ranks else tell("one-outlived", exception=words)
    if not ranks:
        return tell("one-caught-at", exception=words, place=place)
    return tell("caught-at", ranks=ranks, exception=words, place=place)


def _ranks(own: OwnLine) -> tuple[int, ...]:
    return () if own.evidence.rank is None else (own.evidence.rank,)


def remedies(own: OwnLine) -> Iterator[Remedy]:
    """Let all ranks go that way together, at the line where one went alone."""
    if own.caught and own.file:
        yield remedy("decide-failure-together", place=f"{own.file}:{own.line}")
    elif own.branch is not None and own.branch != own.line:  # else the test itself asks for the rank
        yield remedy("decide-before-branch", place=f"{own.file}:{own.branch}", test=own.test)
    elif own.test and own.branch is None:
        place = f"{own.file}:{own.jump_line or own.line}"
        yield remedy("decide-jump-together", place=place, test=own.test, jump=own.jump or "if", operator="MAX")
