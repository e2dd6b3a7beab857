"""Shell scripts as syntax trees, by tree-sitter's grammar of bash."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from unhang.findings import Text, say

MOST_REPAIRS = 8
_LAST_CONTINUATION = re.compile(rb"\\\s*\Z")
"""A backslash at the end of the file, which bash takes and the grammar does not."""


@cache
def _parser() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parsed(code: bytes) -> tuple[Any, bytes, Text | None]:
    """The tree of a script and the text it belongs to; None and why not where this machine has no parser."""
    try:
        return (*_parsed(_LAST_CONTINUATION.sub(b"\n", code)), None)
    except ImportError:
        return None, code, say("shell scripts need tree-sitter-bash, which is not installed beside unhang")
    except ValueError:  # the grammar was made for another release of tree-sitter
        return None, code, say("the installed tree-sitter cannot read the grammar of tree-sitter-bash")


def _parsed(code: bytes) -> tuple[Any, bytes]:
    """The grammar (0.25.1) takes `A=1 B=2` and the line below for one command: a semicolon parts them."""
    for _ in range(MOST_REPAIRS):
        tree = _parser().parse(code).root_node
        ends = sorted(_swallowed(tree, code), reverse=True)
        if not ends:
            break
        for end in ends:
            code = code[:end] + b";" + code[end:]
    return tree, code


def _swallowed(node: Any, code: bytes) -> Iterator[int]:
    """Where the assignments of a line end that were taken together with the next line."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        waiting += one.named_children
        given = [child for child in one.named_children if child.type == "variable_assignment"]
        name = one.child_by_field_name("name") if one.type == "command" and given else None
        between = code[given[-1].end_byte : name.start_byte] if name is not None else b""
        if b"\n" in between and b"\\\n" not in between:
            yield given[-1].end_byte


def first_error(tree: Any) -> list[Any]:
    """The first place that is no shell, in order of the text; none in most scripts."""
    waiting = [tree] if tree.has_error else []
    while waiting:
        one = waiting.pop()
        if one.is_error or one.is_missing:
            return [one]
        waiting += [child for child in reversed(one.children) if child.has_error]
    return []
