"""Words of a shell script: quoting, blanks that part words, and what is expanded inside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from unhang.program.launch.shell.arithmetic import evaluate_arithmetic
from unhang.program.launch.shell.parameters import expand_parameter
from unhang.program.launch.shell.session import ScriptFrame
from unhang.sentences import say

_RANGE = re.compile(r"\{(-?\d+)\.\.(-?\d+)\}")
MAX_RANGE = 256
MAX_WORDS, MAX_CHARACTERS = 4096, 1 << 17
_ESCAPED = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
Segment = tuple[str, bool] | None
"""A text and whether blanks part it; None: a new word begins."""


def expand_words(frame: ScriptFrame, node: Any) -> list[str]:
    """The words that ``node`` becomes: none for an empty variable, several for ``"${ARGS[@]}"``."""
    found = _RANGE.fullmatch(frame.text(node))
    if found and abs(int(found[2]) - int(found[1])) < MAX_RANGE:
        first, last = int(found[1]), int(found[2])
        return [str(number) for number in (range(first, last + 1) if first <= last else range(first, last - 1, -1))]
    words = list(islice(_joined(_segments(frame, node, quoted=False)), MAX_WORDS + 1))
    too_long = len(words) > MAX_WORDS or sum(map(len, words)) > MAX_CHARACTERS
    return [frame.unknown(node, say("it grows without limit"))] if too_long else words


def expand_text(frame: ScriptFrame, node: Any) -> str:
    """``node`` as the value of an assignment: never parted."""
    value = "".join(segment[0] if segment else " " for segment in _segments(frame, node, quoted=True))
    return frame.unknown(node, say("it grows without limit")) if len(value) > MAX_CHARACTERS else value


def expand_heredoc(frame: ScriptFrame, node: Any) -> str:
    """A here-document whose parts are expanded."""
    return "".join(part[0] for part in _between(frame, node, node.start_byte, node.end_byte) if part)


def _joined(segments: Iterator[Segment]) -> Iterator[str]:
    word: str | None = None
    for segment in segments:
        if segment is None:
            if word is not None:
                yield word
            word = None
            continue
        value, splits = segment
        if not splits:
            word = (word or "") + value
            continue
        if value[:1].isspace() and word is not None:
            yield word
            word = None
        pieces = value.split()
        for at, piece in enumerate(pieces):
            word = (word or "") + piece
            if at < len(pieces) - 1 or value[-1:].isspace():
                yield word
                word = None
    if word is not None:
        yield word


def _segments(frame: ScriptFrame, node: Any, *, quoted: bool) -> Iterator[Segment]:
    kind = node.type
    if kind in ("command_name", "concatenation", "translated_string"):
        for child in node.named_children:
            yield from _segments(frame, child, quoted=quoted)
    elif kind == "string" and _is_one_list(frame, node):
        yield from _parameter(frame, node.named_children[0], quoted=True)
    elif kind == "string":
        yield "", False
        yield from _between(frame, node, node.start_byte + 1, node.end_byte - 1)
    elif kind in ("simple_expansion", "expansion"):
        yield from _parameter(frame, node, quoted=quoted)
    elif kind == "command_substitution":
        yield _substitution(frame, node), not quoted
    elif kind == "arithmetic_expansion":
        yield _arithmetic(frame, node), not quoted
    else:
        yield _literal(frame, node), False


def _is_one_list(frame: ScriptFrame, node: Any) -> bool:
    """``"${ARGS[@]}"`` alone: an empty array is no word at all."""
    said = frame.text(node)
    return len(node.named_children) == 1 and (said == '"$@"' or (said.startswith('"${') and said.endswith('[@]}"')))


def _literal(frame: ScriptFrame, node: Any) -> str:
    word = frame.text(node)
    if node.type == "raw_string":
        return word[1:-1]
    if node.type == "ansi_c_string":
        return re.sub(r"\\(.)", lambda found: _ESCAPED.get(found[1], found[0]), word[2:-1])
    if node.type == "process_substitution":
        return frame.unknown(node)
    if word == "~" or word.startswith("~/"):
        home = frame.state.value("HOME")
        word = (home if isinstance(home, str) else "~") + word[1:]
    return re.sub(r"\\(\n|.)", _without_backslash, word, flags=re.DOTALL)


def _without_backslash(found: re.Match[str]) -> str:
    return "" if found[1] == "\n" else found[1]


def _between(frame: ScriptFrame, node: Any, start: int, end: int) -> Iterator[Segment]:
    """The inside of double quotes: literal text around what is expanded."""
    at = start
    for child in node.named_children:
        if child.type in ("string_content", "heredoc_content"):
            continue
        begin = child.start_byte
        if child.type.endswith("expansion"):  # blanks may be counted among the child
            begin = frame.code.find(b"$", begin)
        yield _unescaped(frame.code[at:begin]), False
        yield from _segments(frame, child, quoted=True)
        at = child.end_byte
    yield _unescaped(frame.code[at:end]), False


def _unescaped(code: bytes) -> str:
    return re.sub(r'\\([$`"\\\n])', _without_backslash, code.decode("utf-8", "replace"))


def _parameter(frame: ScriptFrame, node: Any, *, quoted: bool) -> Iterator[Segment]:
    value, apart = expand_parameter(frame, node, expand_text)
    if isinstance(value, str):
        yield value, not quoted
    elif not apart:  # "$*"
        yield " ".join(value), not quoted
    else:
        for at, one in enumerate(value):
            if at:
                yield None
            yield one, not quoted


def _substitution(frame: ScriptFrame, node: Any) -> str:
    """What ``$(…)`` prints, where that can be told without running it."""
    if frame.text(node).startswith("$((") and [child.type for child in node.named_children] == ["subshell"]:
        return _arithmetic(frame, node)  # as the grammar (0.25.1) takes it inside ${X:-$((…))}
    inner = ScriptFrame(frame.session, frame.state.copy(), frame.file, frame.code, frame.run, output=[])
    inner.state.ended = ""
    for child in node.named_children:
        inner.run(inner, child)
    printed = inner.printed()
    return frame.unknown(node) if printed is None else printed.rstrip("\n")


def _arithmetic(frame: ScriptFrame, node: Any) -> str:
    number = evaluate_arithmetic(expand_heredoc(frame, node).removeprefix("$((").removesuffix("))"), frame.state)
    return frame.unknown(node) if number is None else str(number)
