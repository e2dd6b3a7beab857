"""Shell scripts as syntax trees, by tree-sitter's grammar of bash, and the queries that are put to them."""

from __future__ import annotations

import re
import time
from functools import cache, partial
from typing import Any

from unhang.sentences import Text, say

MAX_REPAIRS = 8
LIMIT_S, PIECE = 2.0, 512
MAX_BYTES, MAX_PIPES = 1 << 17, 2000
"""The time and the memory of the parser (0.26.1) grow with the square of a pipeline's length: 7 s for 16,000."""
_LAST_CONTINUATION = re.compile(rb"\\\s*\Z")
"""A backslash at the end of the file, which bash takes and the grammar does not."""
_NOT_SHELL = "[(ERROR) (MISSING)] @found"
_ASSIGNED_BEFORE = "(command (variable_assignment) @found . name: (_) @name)"


@cache
def _query(query: str) -> Any:
    import tree_sitter

    return tree_sitter.Query(_language(), query)


@cache
def _language() -> Any:
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Language(tree_sitter_bash.language())


def parse_script(code: bytes) -> tuple[Any, bytes, Text | None]:
    """The tree of a script and the text it belongs to; None and why not where it cannot be read here."""
    if len(code) > MAX_BYTES or code.count(b"|") > MAX_PIPES:
        return None, code, say("it is too large to be followed as a script")
    try:
        return _parsed(_LAST_CONTINUATION.sub(b"\n", code))
    except ImportError:
        return None, code, say("shell scripts need tree-sitter-bash, which is not installed beside unhang")
    except ValueError:  # the grammar was made for another release of tree-sitter
        return None, code, say("the installed tree-sitter cannot read the grammar of tree-sitter-bash")


def _parsed(code: bytes) -> tuple[Any, bytes, Text | None]:
    """The grammar (0.25.1) takes `A=1 B=2` and the line below for one command: a semicolon parts them."""
    import tree_sitter

    until = time.monotonic() + LIMIT_S
    tree = None
    for _ in range(MAX_REPAIRS):
        tree = tree_sitter.Parser(_language()).parse(partial(_piece, code, until)).root_node
        if time.monotonic() > until:
            return None, code, say("the script was not parsed in {seconds:.0f} s", seconds=LIMIT_S)
        ends = sorted(_swallowed(tree, code), reverse=True)
        if not ends:
            break
        for end in ends:
            code = code[:end] + b";" + code[end:]
    return tree, code, None


def _piece(code: bytes, until: float, at: int, point: object) -> bytes:  # noqa: ARG001 - as the parser calls it
    """What the parser reads at ``at``; the end of the text once the time is over: it goes back often in odd texts."""
    return code[at : at + PIECE] if time.monotonic() < until else b""


def _matches(tree: Any, query: str) -> list[dict[str, list[Any]]]:
    import tree_sitter

    return [found for _, found in tree_sitter.QueryCursor(_query(query)).matches(tree)]


def _swallowed(tree: Any, code: bytes) -> list[int]:
    """Where the assignments of a line end that were taken together with the next line."""
    ends = [(one["found"][-1].end_byte, one["name"][0].start_byte) for one in _matches(tree, _ASSIGNED_BEFORE)]
    return [end for end, name in ends if b"\n" in code[end:name] and b"\\\n" not in code[end:name]]


def first_error(tree: Any) -> Any:
    """The first place that is no shell, in order of the text; None in most scripts."""
    found = [node for one in _matches(tree, _NOT_SHELL) for node in one["found"]] if tree.has_error else []
    return min(found, key=lambda node: node.start_byte, default=None)
