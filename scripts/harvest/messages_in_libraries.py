"""Sentences in compiled files: nothing says at which level they are printed, so only those count that look like the
words of a message."""

from __future__ import annotations

import re
from collections.abc import Iterator

from scripts.harvest.messages_in_python import FILLED, MIN_WORDS, Message, template_of

_STRING = re.compile(rb"[\t\x20-\x7e]{16,2000}")
_PLACES = re.compile(r"%[-#0 +]*\d*(?:\.\d+)?(?:hh|h|ll|l|z|j)?[diouxXeEfFgGcsp]|\$\d|\{(?:\d*(?::[^{}]*)?)\}")
"""``printf``, ``absl::Substitute``, ``fmt``."""
_WORD = re.compile(r"(?<![\w./:-])[A-Za-z][a-z]+(?:'[a-z]+)?(?![\w/])|\ba\b")
_CODE = re.compile(r"::|->|<[A-Za-z]|[(){}\[\]]{2}|\b(?:const|void|typename|std|operator)\b|[|=]{2}|;\s*\S+\s*=")
PRINTED = "printed"
"""Their level."""
MIN_SHARE = 0.6
"""So much of a message is letters of plain words and spaces."""


def messages_in_library(path: str, content: bytes) -> Iterator[Message]:
    """Those in the compiled file at ``path``."""
    for text in sorted(set(strings_of(content))):
        if is_sentence(text) and (template := template_of(_PLACES.sub(FILLED, text.replace("%%", "%")))):
            yield Message(PRINTED, path, template)


def strings_of(content: bytes) -> Iterator[str]:
    """Runs of printable characters that hold a space."""
    for found in _STRING.findall(content):
        if b" " in found and not found.startswith(b"_Z"):
            yield found.decode("ascii").strip()


def is_sentence(text: str) -> bool:
    """Whether ``text`` reads like words for people: enough of them, and no code."""
    words = _WORD.findall(text)
    plain = _PLACES.sub("", text)
    return (
        len(words) >= MIN_WORDS
        and sum(map(len, words)) + plain.count(" ") >= MIN_SHARE * len(plain)
        and _CODE.search(text) is None
    )
